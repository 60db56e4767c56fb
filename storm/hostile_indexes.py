"""Index folders: damaged by accident, or by someone who makes checksums right again."""

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

import gradsnap as gs
from gradsnap.errors import GradsnapError
from gradsnap.index.folder_reading import file_entry, write_manifest
from storm import commands, damage, good
from storm.kind import Kind
from storm.outcomes import WrongAnswer

MANIFEST = "manifest.json"


class _Indexes(Kind):
    """What tries on index folders share."""

    weight = 42.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.good = good.indexes(place)

    def copied(self, numbers: random.Random, place: Path) -> tuple[good.Good, Path]:
        """A good folder, and a copy of it to be made bad."""
        one = numbers.choice(self.good)
        folder = place / "changed.index"
        shutil.copytree(one.folder, folder)
        return one, folder

    def asked(self, one: good.Good, folder: Path, numbers: random.Random) -> Any:
        """What the changed index answers; None where it is refused."""
        if numbers.randrange(8) == 0:
            self.asked_by_command(one, folder, numbers)
        try:
            return good.answers(gs.load_index(folder), one.named)
        except GradsnapError:
            return None

    def asked_by_command(
        self, one: good.Good, folder: Path, numbers: random.Random
    ) -> None:
        """One verb on the folder; ``commands`` raises what a user must not see."""
        first = "1.jpg" if one.named else "1"
        words = numbers.choice(
            [
                ("info", folder),
                ("search", folder, "--id", first, "-k", "3"),
                ("search", folder, "--id", first, "--json", "--where", "label = 1"),
                ("remove", folder, first, "--dry-run"),
                ("export", folder, "--to", "faiss", "--out", folder.parent / "out"),
                ("duplicates", folder),
            ]
        )
        commands.run(*words)


class DamagedIndexes(_Indexes):
    """A file is cut, flipped, emptied, swapped: refused, or the same answers."""

    name = "damaged-indexes"

    def attempt(self, numbers: random.Random, place: Path) -> str:
        one, folder = self.copied(numbers, place)
        path = numbers.choice(sorted(folder.iterdir()))
        way = numbers.randrange(8)
        if way == 0:
            damage.displace(path, numbers)
        elif way == 1:
            other = numbers.choice(self.good).folder
            shutil.copy(numbers.choice(sorted(other.iterdir())), path)
        else:
            path.write_bytes(damage.damaged(path.read_bytes(), numbers))
        said = self.asked(one, folder, numbers)
        if said is None:
            return "refused"
        if repr(said) != repr(one.answers):
            raise WrongAnswer(f"{one.variant}: {path.name} was changed, and believed")
        return "answered"


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest, without what ``write_manifest`` adds."""
    content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    added = ("format", "version", "sha256")
    return {key: value for key, value in content.items() if key not in added}


class SealedIndexes(_Indexes):
    """A file is changed, and checksums and sizes say so: refused, or answered."""

    name = "sealed-indexes"

    def attempt(self, numbers: random.Random, place: Path) -> str:
        one, folder = self.copied(numbers, place)
        content = manifest_of(folder)
        for _ in range(numbers.choice((1, 1, 2))):
            name = numbers.choice(sorted(content["files"]))
            path = folder / name
            if numbers.randrange(6) == 0:
                other = numbers.choice(self.good).folder
                names = sorted(manifest_of(other)["files"])
                shutil.copy(other / numbers.choice(names), path)
            else:
                path.write_bytes(damage.damaged(path.read_bytes(), numbers))
            content["files"][name] = file_entry(path)
            if numbers.randrange(2):
                _restate(content, name, path.stat().st_size, numbers)
        write_manifest(folder, content)
        return "answered" if self.asked(one, folder, numbers) else "refused"


def _restate(content: Any, name: str, size: int, numbers: random.Random) -> None:
    """Lets the shape of a column fit its file, in one way or another."""
    for segment in content["segments"]:
        columns = [*segment["columns"].values(), segment.get("removed", [None] * 3)]
        for column in columns:
            if column[0] == name:
                width = numbers.choice((1, 2, 3, 4, 8))
                column[1] = numbers.choice((column[1], "uint8", "int64", "uint32"))
                shapes = [[size // width], [size // width, width], [1, size]]
                tail = column[2][1:]
                own = max(1, size // max(1, _product(tail)))
                column[2] = numbers.choice([[own, *tail], *shapes, [size, 1, 1]])
                if numbers.randrange(2):
                    segment["items"] = column[2][0]


def _product(shape: list[int]) -> int:
    whole = 1
    for one in shape:
        whole *= one
    return whole


class Manifests(_Indexes):
    """Values of a manifest changed under a right checksum, or its text."""

    name = "manifests"

    def attempt(self, numbers: random.Random, place: Path) -> str:
        one, folder = self.copied(numbers, place)
        if numbers.randrange(10) == 0:
            (folder / MANIFEST).write_text(_text(numbers), errors="surrogateescape")
        else:
            content = copy.deepcopy(manifest_of(folder))
            for _ in range(numbers.choice((1, 1, 1, 2, 3))):
                damage.changed_value(content, numbers)
            try:
                write_manifest(folder, content)
            except (ValueError, TypeError):  # no JSON can say it
                return "refused"
        return "answered" if self.asked(one, folder, numbers) else "refused"


def _text(numbers: random.Random) -> str:
    """JSON that is deep, long, or none."""
    deep = 10 ** numbers.randrange(1, 6)
    texts: list[str] = [
        "[" * deep,
        '{"a":' * deep + "1" + "}" * deep,
        "9" * deep,
        f'{{"format": "gradsnap-index", "version": {"1" * deep}}}',
        '{"format": "gradsnap-index", "version": 1, "sha256": null}',
        '{"format": "gradsnap-index", "version": 1e999}',
        "null",
        "[]",
        '""',
        "\udc80\udcff",
        "\ufeff{}",
        "NaN",
    ]
    return numbers.choice(texts)

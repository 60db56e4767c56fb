"""Index folders changed by someone who makes the checksums right again.

Whatever is changed: the index is refused in a sentence, or it opens and everything that
can be asked of it is answered. Nothing else may be raised, and no file outside of the
folder is read.
"""

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradsnap.errors import GradsnapError
from gradsnap.index import HalfPrecision, load_index
from gradsnap.index.folder_reading import file_entry, write_manifest
from tests.conftest import clustered, fitted
from tests.index_builders import OVER_QUANTIZERS, made

BAD_VALUES: list[Any] = [
    None, -1, 2**70, 1.5, True, "x", "../x", "/etc/passwd", [], {}, [[1]], "int64",
]  # fmt: skip
SHOWN = 12
"""Changes tried by the fast tests; the slow ones try all."""

Leaf = tuple[Any, ...]


@pytest.fixture(scope="module", params=OVER_QUANTIZERS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Path:
    """A saved index with names, metadata, floats, a removed item and two saves."""
    quantizer = fitted("pq")
    refiner = None if request.param == "local" else HalfPrecision(quantizer.dim)
    index = made(request.param, quantizer, refiner=refiner)
    x = clustered(24)
    names = [f"{number}.jpg" for number in range(24)]
    labels = {"label": [number % 3 for number in range(24)]}
    folder: Path = tmp_path_factory.mktemp(request.param) / "whole.index"
    index.add(x[:16], ids=names[:16], metadata={"label": labels["label"][:16]})
    index.save(folder)
    index.add(x[16:], ids=names[16:], metadata={"label": labels["label"][16:]})
    index.remove(["3.jpg"])
    index.save(folder)
    return folder


def manifest_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return {
        k: v for k, v in content.items() if k not in ("format", "version", "sha256")
    }


def leaves(value: Any, path: Leaf = ()) -> Iterator[Leaf]:
    """The place of every value, tables and lists among them."""
    if path:
        yield path
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else pairs:
        yield from leaves(inner, (*path, key))


def with_value(content: dict[str, Any], place: Leaf, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(content)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    if value is Ellipsis:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return changed


def ask_everything(folder: Path) -> None:
    """All that reads the files; an error of ours ends it, as it would for a user."""
    try:
        index = load_index(folder)
        query = clustered(2)
        index.search(query, 5, rerank=8 if index.refiner is not None else None)
        index.search_items(["1.jpg"], 3)
        index.metadata(["2.jpg"])
        index.select("label = 1")
        index.compact()
    except GradsnapError:
        return


def changes(content: dict[str, Any]) -> list[tuple[Leaf, Any]]:
    """Every value with everything it should not be; ``...`` takes it away."""
    return [(place, bad) for place in leaves(content) for bad in [*BAD_VALUES, ...]]


def try_manifests(folder: Path, tmp_path: Path, most: int) -> int:
    place = tmp_path / "changed.index"
    shutil.copytree(folder, place)
    content = manifest_of(folder)
    every = changes(content)
    tried = every[:: max(len(every) // most, 1)]
    for leaf, bad in tried:
        write_manifest(place, with_value(content, leaf, bad))
        ask_everything(place)
    return len(tried)


def test_a_crafted_manifest_is_refused_or_answers(whole: Path, tmp_path: Path) -> None:
    assert try_manifests(whole, tmp_path, SHOWN) >= SHOWN


@pytest.mark.slow
def test_every_crafted_manifest(whole: Path, tmp_path: Path) -> None:
    assert try_manifests(whole, tmp_path, 10**6) > 500


def damages(content: bytes) -> Iterator[bytes]:
    """Shorter, longer, empty, random, extreme, flipped."""
    yield content[: len(content) // 2]
    yield content + content[:8]
    yield b""
    yield np.random.default_rng(0).bytes(len(content))
    yield b"\xff" * len(content)
    yield b"\0" * len(content)
    for place in np.linspace(0, max(len(content) - 1, 0), 6).astype(int):
        changed = bytearray(content)
        if changed:
            changed[place] ^= 0x81
        yield bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("declared", ["as it was", "as it is"])
def test_files_with_their_checksums_made_right(
    whole: Path, tmp_path: Path, declared: str
) -> None:
    place = tmp_path / "changed.index"
    shutil.copytree(whole, place)
    content = manifest_of(whole)
    for name in content["files"]:
        before = (whole / name).read_bytes()
        for damaged in damages(before):
            (place / name).write_bytes(damaged)
            files = content["files"] | {name: file_entry(place / name)}
            shapes = (
                _declared(content, name, damaged) if declared != "as it was" else {}
            )
            write_manifest(place, content | {"files": files} | shapes)
            ask_everything(place)
        (place / name).write_bytes(before)


def _declared(content: dict[str, Any], name: str, data: bytes) -> dict[str, Any]:
    """The segments, with the column's shape said to be what the file has now."""
    segments = copy.deepcopy(content["segments"])
    for segment in segments:
        for column in segment["columns"].values():
            if column[0] == name:
                width = np.dtype(column[1]).itemsize * int(np.prod(column[2][1:]))
                column[2][0] = len(data) // width
    return {"segments": segments}


def test_codes_of_another_shape_are_refused(whole: Path, tmp_path: Path) -> None:
    """Narrower or wider codes were searched before, int64 ones crashed."""
    place = tmp_path / "changed.index"
    shutil.copytree(whole, place)
    content = manifest_of(whole)
    rows, width = content["segments"][0]["columns"]["codes"][2]
    file = content["segments"][0]["columns"]["codes"][0]
    shapes = [[rows, width - 1], [rows, width + 1], [rows * width], [rows, width, 1]]
    changes = [("uint8", shape) for shape in shapes] + [("int64", [rows, width])]
    for dtype, shape in changes:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        (place / file).write_bytes(bytes(size))
        changed = copy.deepcopy(content)
        changed["segments"][0]["columns"]["codes"] = [file, dtype, shape]
        changed["files"][file] = file_entry(place / file)
        write_manifest(place, changed)
        with pytest.raises(GradsnapError, match=r"is said to hold"):
            load_index(place)


def test_no_file_outside_is_read(whole: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.parquet"
    place = tmp_path / "changed.index"
    shutil.copytree(whole, place)
    content = manifest_of(whole)
    shutil.copy(whole / content["segments"][0]["metadata"], secret)
    content["segments"][0]["metadata"] = "../secret.parquet"
    write_manifest(place, content)
    with pytest.raises(GradsnapError, match=r"not listed"):
        load_index(place)
    content["files"]["../secret.parquet"] = file_entry(secret)
    write_manifest(place, content)
    with pytest.raises(GradsnapError, match=r"names a file"):
        load_index(place)


def test_a_name_that_no_file_can_have_is_refused(whole: Path, tmp_path: Path) -> None:
    place = tmp_path / "changed.index"
    shutil.copytree(whole, place)
    content = manifest_of(whole)
    content["files"]["a\0b"] = {"bytes": 1, "sha256": ""}
    write_manifest(place, content)
    with pytest.raises(GradsnapError, match=r"names a file 'a\\x00b'"):
        load_index(place)


def test_a_link_in_place_of_the_lock_makes_no_file(whole: Path, tmp_path: Path) -> None:
    place = tmp_path / "changed.index"
    shutil.copytree(whole, place)
    (place / "writer.lock").unlink(missing_ok=True)
    (place / "writer.lock").symlink_to(tmp_path / "made")
    index = load_index(place)
    index.remove(["1.jpg"])
    with pytest.raises(GradsnapError, match=r"cannot write"):
        index.save(place)
    assert not (tmp_path / "made").exists()

"""A photo collection's whole life, each answer beside a brute-force list."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.coders import CODERS
from gradsnap.collection.queries import vectors_of
from gradsnap.data.folders import files_in, is_image
from gradsnap.index import Index
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.networks import build_network
from tests.commands import said
from tests.photo_folders import make_photos

K = 5
WHERE = 'camera = "Canon EOS" and year > 2015'


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A network that was never trained, and a coder for what it makes."""
    options: dict[str, Any] = {"dim": 16, "side": 8, "channels": 3}
    network = build_network("small", **options).eval()
    rows = torch.randn(300, 16, generator=torch.Generator().manual_seed(0)) / 10
    coder = CODERS["pq"].of_bits(16, 32).fit(rows)
    folder: Path = tmp_path_factory.mktemp("model") / "model"
    Model(network, coder, NetworkSpec("small", options, 8, 3)).save(folder)
    return folder


def heard(*words: object) -> Any:
    return json.loads(said(*words, "--json"))


class Life:
    """A collection and its index, with the seconds each command took."""

    def __init__(self, folder: Path) -> None:
        self.photos = folder / "photos"
        self.index = folder / "photos.index"
        self.seconds: dict[str, float] = {}

    def does(self, name: str, *words: object) -> Any:
        started = time.monotonic()
        answer = heard(*words)
        self.seconds[name] = round(time.monotonic() - started, 1)
        return answer

    def on_disk(self) -> set[str]:
        """What is there, found without gradsnap's own way of opening it."""
        every = (name for name in files_in(self.photos, "") if is_image(name))
        return {name for name in every if not name.endswith((".heic", "broken.jpg"))}

    def nearest(self, asked: str, fulfils: Any, wide: int = K) -> list[str]:
        """The nearest items by their kept vectors, compared one by one."""
        index = gs.load_index(self.index)
        ids = list(index.select())
        rows = vectors_of(index, ids).double().numpy()
        query = rows[ids.index(asked)]
        known = index.metadata(ids)
        found = sorted(
            (float(np.square(row - query).sum()), place)
            for place, row in enumerate(rows)
            if fulfils(known[place])
        )
        return [ids[place] for _, place in found[:wide]]

    def check_search(self, name: str, asked: list[str]) -> None:
        paths = [self.photos / one for one in asked]
        options = ("-k", K, "--where", WHERE, "--rerank", len(self.on_disk()))
        answers = self.does(name, "search", self.index, *paths, *options)
        assert [Path(one["query"]) for one in answers] == paths
        for one, answer in zip(asked, answers, strict=True):
            assert [row["id"] for row in answer["results"]] == self.nearest(one, fits)
            for row in answer["results"]:
                assert Path(row["path"]) == self.photos / row["id"]


def fits(known: dict[str, Any]) -> bool:
    date = known["taken"] or known["time"]
    return known["camera"] == "Canon EOS" and bool(date.year > 2015)


def brute_groups(index: Index, within: float) -> set[frozenset[str]]:
    """Items that pairs within a distance join, by comparing every two of them."""
    ids = list(index.select())
    rows = vectors_of(index, ids).double()
    groups = [{one} for one in ids]
    for first in range(len(ids)):
        far = (rows[first + 1 :] - rows[first]).square().sum(dim=1)
        for second in (far <= within).nonzero()[:, 0].tolist():
            one = next(g for g in groups if ids[first] in g)
            other = next(g for g in groups if ids[first + 1 + second] in g)
            if one is not other:
                groups.remove(other)
                one |= other
    return {frozenset(one) for one in groups if len(one) > 1}


def live(life: Life, count: int, before: list[object]) -> None:
    """From an empty folder to an export; fails where an answer is not right."""
    names = make_photos(life.photos, range(count))
    (life.photos / "phone.heic").write_bytes(b"no decoder here")
    (life.photos / "notes.txt").write_text("not a photo")
    options = ("--keep-half", "--out", life.index)
    made = life.does("index", "index", *before, life.photos, *options)
    assert (made["items"], made["ignored"]) == (count, 1)
    assert set(gs.load_index(life.index).select()) == life.on_disk()
    asked = [names[0], names[1], names[len(names) // 2 + 3]]
    life.check_search("search", asked)
    change_and_sync(life, names)
    life.check_search("search again", asked)
    check_duplicates(life, within=1e-3)
    out = life.index.parent / "photos.faiss"
    life.does("export", "export", life.index, "--to", "faiss", "--out", out)
    exported = json.loads(Path(f"{out}.names.json").read_text())
    assert sorted(exported) == sorted(life.on_disk())


def change_and_sync(life: Life, names: list[str]) -> None:
    """Files come, go and move; one command later the index knows."""
    count = len(names)
    added, removed, renamed = count // 20, count // 40, count // 100 or 1
    make_photos(life.photos, range(count, count + added))
    (life.photos / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    for name in names[10 : 10 + removed]:
        (life.photos / name).unlink()
    (life.photos / "sorted").mkdir()
    for number, name in enumerate(names[100 % count + 2 :][:renamed]):
        new = life.photos / "sorted" / f"{number}{Path(name).suffix}"
        shutil.move(life.photos / name, new)
    done = life.does("sync", "sync", life.index)
    expected = {"added": added, "removed": removed, "moved": renamed, "changed": 0}
    assert {key: done[key] for key in expected} == expected
    assert done["broken"] == 1
    assert set(gs.load_index(life.index).select()) == life.on_disk()
    assert heard("sync", life.index)["same"] == len(life.on_disk())


def check_duplicates(life: Life, within: float) -> None:
    answer = life.does("duplicates", "duplicates", life.index, "--within", within)
    groups = {frozenset(row["id"] for row in group) for group in answer["groups"]}
    assert groups == brute_groups(gs.load_index(life.index), within)
    assert groups


def test_forty_photos(model, tmp_path) -> None:
    live(Life(tmp_path), 40, [model])


@pytest.mark.slow
def test_two_thousand_photos_without_a_model(tmp_path) -> None:
    life = Life(tmp_path)
    live(life, 2000, [])
    print(life.seconds)  # noqa: T201


@pytest.mark.slow
def test_one_photo_and_a_broken_one_without_a_model(tmp_path) -> None:
    life = Life(tmp_path)
    (name, *_) = make_photos(life.photos, range(1))
    (life.photos / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    made = heard("index", life.photos, "--out", life.index)
    assert (made["items"], made["skipped"]) == (1, 1)
    moved = tmp_path / "moved.index"
    life.index.rename(moved)  # its network lies in it
    found = heard("search", moved, life.photos / name)
    assert [one["distance"] for one in found[0]["results"]] == [0]
    more = make_photos(life.photos, range(1, 4))
    added = heard("index", life.photos / more[0], "--add", "--out", moved)
    assert added["items"] == 2
    assert heard("sync", moved)["added"] == 2

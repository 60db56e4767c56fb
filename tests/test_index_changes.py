"""Items under other names and with other metadata, on disk and in memory."""

import datetime

import pytest
import torch

import gradsnap as gs
from gradsnap.errors import InputError
from tests.conftest import clustered, fitted

NAMES = [f"{number}.jpg" for number in range(30)]


@pytest.fixture
def saved(tmp_path) -> gs.ExhaustiveIndex:
    index = gs.ExhaustiveIndex(fitted("pq"))
    for start in (0, 20):
        part = NAMES[start : start + 20]
        index.add(clustered(30)[start : start + 20], part, {"size": range(len(part))})
        index.save(tmp_path / "i")
    return index


def codes_on_disk(folder) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix == ".codes"}


def test_a_renamed_item_keeps_its_place(saved, tmp_path) -> None:
    before = codes_on_disk(tmp_path / "i")
    old = saved.search(clustered(4), 30)
    renames = {"3.jpg": "new/3.jpg", "25.jpg": "new/25.jpg"}
    saved.rename(renames).save(tmp_path / "i")
    assert codes_on_disk(tmp_path / "i") == before  # codes were not written again
    for index in (saved, gs.load_index(tmp_path / "i", verify=True)):
        found = index.search(clustered(4), 30)
        assert found.ids == [[renames.get(one, one) for one in row] for row in old.ids]
        assert torch.equal(found.distances, old.distances)
        assert index.metadata(["new/3.jpg"]) == [{"size": 3}]
        assert "3.jpg" not in index


def test_names_can_be_exchanged_and_not_taken(saved) -> None:
    saved.rename({"1.jpg": "2.jpg", "2.jpg": "1.jpg"})
    assert saved.metadata(["1.jpg", "2.jpg"]) == [{"size": 2}, {"size": 1}]
    with pytest.raises(InputError, match=r"'4.jpg' is in the index already"):
        saved.rename({"3.jpg": "4.jpg"})
    with pytest.raises(InputError, match="not in the index"):
        saved.rename({"nobody": "x"})
    with pytest.raises(InputError, match="twice"):
        saved.rename({"5.jpg": "x", "6.jpg": "x"})
    assert saved.metadata(["3.jpg", "5.jpg"]) == [{"size": 3}, {"size": 5}]


def test_metadata_is_updated_for_some(saved, tmp_path) -> None:
    day = datetime.datetime(2020, 5, 1)
    saved.update(["0.jpg", "29.jpg"], {"size": [100, 200], "taken": [day, None]})
    saved.save(tmp_path / "i")
    again = gs.load_index(tmp_path / "i", verify=True)
    found = again.metadata(["0.jpg", "1.jpg", "29.jpg", "28.jpg"])
    assert [one["size"] for one in found] == [100, 1, 200, 8]
    assert [one["taken"] for one in found] == [day, None, None, None]
    again.update(["1.jpg"], {"size": [0.5]}).save(tmp_path / "i")
    assert gs.load_index(tmp_path / "i").metadata(["1.jpg"])[0]["size"] == 0.5
    with pytest.raises(InputError, match="the new values are string"):
        again.update(["1.jpg"], {"size": ["large"]})
    with pytest.raises(InputError, match="twice"):
        again.update(["1.jpg", "1.jpg"], {"size": [1, 2]})


def test_numbers_have_metadata_too() -> None:
    index = gs.ExhaustiveIndex(fitted("pq")).add(clustered(5))
    index.update([1, 3], {"price": [1.5, 2.5]})
    assert [one["price"] for one in index.metadata([1, 2, 3])] == [1.5, None, 2.5]
    assert list(index.select("price > 2")) == [3]

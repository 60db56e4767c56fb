"""Packed strings: as a list of strings is, and to files and processes and back."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import gradsnap as gs
from gradsnap.index.segment_files import open_segment, write_segment
from gradsnap.index.segments import Segment
from gradsnap.strings import PackedStrings

WORDS = ["cat/1.jpg", "", "größe/ß.png", "bytes\udcff.jpg", "漢字", "cat/1.jpg"]


@pytest.mark.parametrize("words", [WORDS, [], [""], ["", ""]])
def test_the_strings_come_back(words: list[str]) -> None:
    packed = PackedStrings.of(iter(words))
    assert list(packed) == words
    assert len(packed) == len(words)
    assert packed.text.dtype == np.uint8
    assert packed.ends.dtype == np.uint64
    assert packed.ends.shape == (len(words),)


def test_indices_are_a_lists() -> None:
    packed = PackedStrings.of(WORDS)
    assert packed[-1] == WORDS[-1]
    assert packed.index("漢字") == 4
    assert "dog" not in packed
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            packed[wrong]


@pytest.mark.parametrize(
    "part", [slice(1, 3), slice(None), slice(None, None, -2), slice(4, 1), slice(-2, 9)]
)
def test_slices_are_a_lists(part: slice) -> None:
    assert list(PackedStrings.of(WORDS)[part]) == WORDS[part]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_strings_are_taken_in_any_order(kind) -> None:
    packed = PackedStrings.of(WORDS)
    order = [3, 0, 0, -2, 1]
    taken = packed.take(kind(order))
    assert list(taken) == [WORDS[place] for place in order]
    assert taken.ends.dtype == np.uint64
    assert list(packed.take(torch.arange(0))) == []


def test_strings_are_found() -> None:
    packed = PackedStrings.of(WORDS)
    found = packed.find(["漢字", "dog", "cat/1.jpg", "bytes\udcff.jpg", ""])
    assert found.dtype == np.int64
    assert found.tolist() == [4, -1, 0, 3, 1]
    assert PackedStrings.of([]).find(["dog"]).tolist() == [-1]


def test_arrays_of_a_file_are_mapped(tmp_path: Path) -> None:
    packed = PackedStrings.of(WORDS)
    packed.text.tofile(tmp_path / "text")
    packed.ends.tofile(tmp_path / "ends")
    text = np.memmap(tmp_path / "text", np.uint8, "r")
    mapped = PackedStrings(text, np.memmap(tmp_path / "ends", np.uint64, "r"))
    assert list(mapped) == WORDS
    assert np.shares_memory(mapped.text, text)
    assert list(mapped.take(np.array([2, 0]))) == [WORDS[2], WORDS[0]]
    assert list(pickle.loads(pickle.dumps(mapped))) == WORDS


def test_an_index_keeps_every_file_name(tmp_path: Path) -> None:
    codes = np.zeros((len(WORDS), 2), np.uint8)
    made = Segment(codes, names=PackedStrings.of(WORDS))
    opened = open_segment(tmp_path, write_segment(tmp_path, "some", made))
    assert opened.names is not None
    assert list(opened.names) == WORDS
    assert opened.find(["bytes\udcff.jpg"]).tolist() == [3]


@pytest.mark.parametrize("words", [WORDS, []])
def test_pickles_are_the_letters_and_no_more(words: list[str]) -> None:
    packed = PackedStrings.of(words * 1000)
    packed.find(["dog"])  # makes a dictionary, which stays at home
    content = pickle.dumps(packed)
    assert len(content) < packed.text.nbytes + packed.ends.nbytes + 2000
    copy = pickle.loads(content)
    assert list(copy) == words * 1000
    assert copy.ends.dtype == np.uint64


class Lengths(torch.utils.data.Dataset[int]):
    """In a worker process: the length of a name."""

    def __init__(self, names: PackedStrings) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> int:
        return len(self.names[index])


@pytest.mark.slow
def test_worker_processes_share_them() -> None:
    packed = PackedStrings.of(WORDS)
    reader = DataLoader(Lengths(packed), num_workers=1, multiprocessing_context="spawn")
    assert [int(length) for length in reader] == [len(word) for word in WORDS]
    assert all(tensor.is_shared() for tensor in packed.__getstate__())


def test_damaged_arrays_are_refused() -> None:
    letters = np.frombuffer(b"abcdef", np.uint8)
    for ends in ([2, 5], [2, 9], []):
        with pytest.raises(gs.FileFormatError, match=r"text, which has 6 bytes"):
            PackedStrings(letters, np.array(ends, np.uint64))
    backwards = PackedStrings(letters, np.array([4, 2, 6], np.uint64))
    beyond = PackedStrings(letters, np.array([2, 2**40, 6], np.uint64))
    for packed in (backwards, beyond):
        assert packed[0] in ("ab", "abcd")
        with pytest.raises(gs.FileFormatError, match=r"string 1 lies at bytes"):
            packed[1]
        with pytest.raises(gs.FileFormatError, match="ends before it begins"):
            packed[:]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(gs.InputError, match=r"'\\ud800' is no text"):
        PackedStrings.of(["\ud800"])

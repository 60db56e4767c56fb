"""Batches read by a thread: the same, in order, errors in their places."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from gradsnap.data import ReadAhead


class Noted:
    """Numbers that note who reads them, with an error at one of them."""

    def __init__(self, count: int, wrong: int | None = None) -> None:
        self.count, self.wrong = count, wrong
        self.read: list[int] = []
        self.threads: set[int] = set()

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.threads.add(threading.get_ident())
            self.read.append(number)
            if number == self.wrong:
                raise ValueError(f"number {number} is wrong")
            yield number


def test_order_and_length_are_kept() -> None:
    source = Noted(50)
    ahead = ReadAhead(source)
    assert len(ahead) == 50
    assert list(ahead) == list(ahead) == list(range(50))
    assert threading.get_ident() not in source.threads


def test_an_error_comes_up_in_its_place() -> None:
    batches = iter(ReadAhead(Noted(9, wrong=4)))
    assert list(itertools.islice(batches, 4)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="number 4 is wrong"):
        next(batches)


def test_who_stops_early_reads_no_further() -> None:
    source = Noted(1000)
    batches = iter(ReadAhead(source))
    assert next(batches) == 0
    batches.close()
    assert len(source.read) < 5


def test_nothing_is_nothing() -> None:
    assert list(ReadAhead([])) == []

"""Scans of single items, compiled: those that count where few do, chosen positions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place
from gradsnap.index.heaps_compiled import key_of, offer, push
from gradsnap.index.shuffles_compiled import lowest_bit
from gradsnap.index.sums_compiled import eight_sum, row_sum
from gradsnap.index.wide_compiled import fetch
from gradsnap.index.wide_lists_compiled import AHEAD, fetch_alive

Array = NDArray[Any]
Tuple = tuple[Any, ...]

EIGHT = 8
"""Items that are asked together whether they count: bytes of a number."""

PAIRED = 16
"""Codewords a codebook of which a byte holds two codes."""

SOME = 512
"""Items of which those that count are chosen first."""

ONE = np.uint64(1)


@compiled_in_place
def scan_few(
    columns: Tuple, alive: Array, spans: Tuple, own: Tuple, heap: Tuple, room: Tuple
) -> None:
    """Where most items do not count: nothing is added up for those.

    Some items at a time are asked whether they count, before the first of them is added
    up: meanwhile memory brings their codes.
    """
    (bounds, step), (lists, tables), chosen = spans, own, room[3]
    for p in range(lists.shape[0]):
        table = tables[p if tables.shape[0] > 1 else 0]
        fetch_alive(alive, spans, lists, p + AHEAD)
        start, stop = bounds[step * lists[p]], bounds[step * lists[p] + 1]
        for first in range(start // EIGHT * EIGHT, stop, SOME):
            some = (max(start, first), min(stop, first + SOME))
            count = _choose_alive(columns, alive, some, chosen)
            _take_chosen(columns, table, heap, chosen[:count])


@compiled_in_place
def _choose_alive(
    columns: Tuple, alive: Array, some: tuple[int, int], chosen: Array
) -> int:
    """Fills in which of some items count, and says how many; eight are asked at once.

    A byte that counts is 1: the bits of eight bytes say which do.

    Args:
        columns: ``Columns`` as a plain tuple.
        alive: which items count, bool (n,).
        some: the first of the items, and the first behind them; at most ``SOME``.
        chosen: positions, int64 (SOME + 1,), filled.
    """
    codes, short = columns[0], columns[2]
    eights = alive[: alive.size // EIGHT * EIGHT].view(np.uint64)
    count = 0
    for eight in range(some[0] // EIGHT, some[1] // EIGHT):
        mask = eights[eight]
        while mask != 0:
            bit: int = lowest_bit(mask)  # type: ignore[call-arg]
            chosen[count] = EIGHT * eight + (bit >> 3)
            count += chosen[count] >= some[0]
            mask &= mask - ONE
    for at in range(max(some[0], some[1] // EIGHT * EIGHT), some[1]):
        chosen[count] = at
        count += alive[at]
    for at in chosen[:count]:
        fetch(codes, at * codes.shape[1])  # type: ignore[call-arg]
        fetch(short, at)
    return count


@compiled_in_place
def _take_chosen(columns: Tuple, table: Array, heap: Tuple, chosen: Array) -> None:
    """Offers items at positions (r,), as ``offer`` does, which is handed more."""
    codes, bias, short, long = columns[0], columns[1], columns[2], columns[3]
    distances, keys, places = heap
    for at in chosen:
        total = max(row_sum(codes, bias, at, table), np.float32(0))
        if total <= distances[0]:
            key = key_of(short, long, columns[5], at)
            if total < distances[0] or key < keys[0]:
                push(distances, keys, places, (total, key, columns[6] + at))


@compiled_in_place
def scan_chosen(columns: Tuple, positions: Array, tables: Array, heaps: Tuple) -> None:
    """Scans the items at positions (r,), any order, for each query.

    Args:
        columns: ``Columns`` as a plain tuple.
        positions: int64 (r,), each once.
        tables: of the queries, float32 (q, M, K).
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    for q in range(tables.shape[0]):
        heap = (heaps[0][q], heaps[1][q], heaps[2][q])
        if columns[4].size and tables.shape[2] > PAIRED:
            _take_words(columns, tables[q], heap, positions)
        else:
            _take_chosen(columns, tables[q], heap, positions)


@compiled_in_place
def _take_words(columns: Tuple, table: Array, heap: Tuple, chosen: Array) -> None:
    """The same for codes of eight bytes, which are read as one number."""
    words, flat, distances = columns[4], table.reshape(table.size), heap[0]
    for at in chosen:
        total = eight_sum(flat, words[at])
        if total <= distances[0]:
            offer(heap, columns, total, at)

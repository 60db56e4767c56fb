"""Lists of one query, 64 codes at a time: see ``wide_compiled``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place
from gradsnap.index.heaps_compiled import key_of, push
from gradsnap.index.shuffles_compiled import (
    ALL,
    least,
    limit_of,
    living,
    lowest_bit,
    lows_of,
    scale_of,
    shrink,
)
from gradsnap.index.sums_compiled import eight_sum, row_sum
from gradsnap.index.wide_compiled import (
    BOOKS,
    ENTRIES,
    IDS,
    WIDE,
    fetch,
    near_4,
    near_8,
    near_16,
)
from gradsnap.lines_compiled import LINE

Array = NDArray[Any]
Tuple = tuple[Any, ...]

SHRUNK = np.float32(0.7)
"""Small tables are made anew where the worst result is so much nearer."""

AHEAD = 3
"""What counts of a list is asked for while so many others are scanned before it."""
FAR_AHEAD = 6
"""The same of its codes."""

LATER = 1024
"""Codes of a long list are asked for so many before their turn: from far memory they
come in a third of the time."""

ONE = np.uint64(1)
INFINITE = np.float32(np.inf)


@compiled_in_place
def can_scan_wide(codes: Array, bias: Array, tables: Array) -> bool:
    """Whether ``scan_wide`` is for codes (n, M) and the tables (t, M, K) of a query.

    Small tables take too long to make for each list anew; and its bounds hold for
    entries that are not negative.
    """
    items, books = codes.shape
    if codes.itemsize > 1 or bias.size or items < WIDE or books not in BOOKS:
        return False
    if tables.shape[2] > ENTRIES or tables.shape[0] > 1:
        return False
    return bool(least(tables.reshape(tables.size)) >= 0)


@compiled_in_place
def scan_wide(
    columns: Tuple, alive: Array, spans: Tuple, own: Tuple, heap: Tuple, room: Tuple
) -> None:
    """As the scans of ``lists_compiled``, for ``BOOKS`` codebooks of up to 256.

    What a mask names is offered once the next mask is found, for meanwhile its ids
    come; but at once as long as nothing is ruled out.
    """
    (bounds, step), (lists, tables), codes = spans, own, columns[0]
    table, small, lows, distances = tables[0], room[0], room[1], heap[0]
    books, last = codes.shape[1], codes.shape[0] - WIDE
    low, scale, limit, worst = lows_of(table, lows), np.float32(0), ALL, INFINITE
    held, held_at = np.uint64(0), 0
    for p in range(lists.shape[0]):
        _fetch(codes, spans, lists, p + FAR_AHEAD)
        fetch_alive(alive, spans, lists, p + AHEAD)
        stop = bounds[step * lists[p] + 1]
        for at in range(bounds[step * lists[p]], stop, WIDE):
            if distances[0] < SHRUNK * worst:
                worst = distances[0]
                scale = scale_of(worst, low)
                shrink(table, lows, scale, small)
                limit = limit_of(worst, low, scale)
            _fetch_block(codes, at + LATER, stop)
            first = min(at, last)  # nothing beyond the last code is read
            mask = (  # a function for these three would take as long as they do
                near_8(codes, first, small, limit)  # type: ignore[call-arg]
                if books == BOOKS[1]
                else near_4(codes, first, small, limit)  # type: ignore[call-arg]
                if books == BOOKS[0]
                else near_16(codes, first, small, limit)  # type: ignore[call-arg]
            )
            if mask == 0:
                continue
            mask = _inside(mask & living(alive, first), at - first, stop - at)
            if mask == 0:
                continue
            fetch_ids(columns[2], at)
            if worst < INFINITE:
                mask, held, at, held_at = held, mask, held_at, at
            _take(columns, table, heap, (mask, at))
            if worst < INFINITE:
                limit = limit_of(distances[0], low, scale)
    _take(columns, table, heap, (held, held_at))


@compiled_in_place
def _fetch(codes: Array, spans: Tuple, lists: Array, p: int) -> None:
    """Asks for the first codes (n, M) of the p-th of some lists.

    Always for as many, though they be of other lists or none: to count them takes
    longer than to ask for them.
    """
    if p < lists.shape[0]:
        bounds, step = spans
        first = bounds[step * lists[p]]
        _fetch_block(codes, first, first + 1)


@compiled_in_place
def _fetch_block(codes: Array, first: int, stop: int) -> None:
    """Asks for 64 codes, from the first on, if that is before the stop."""
    if first < stop:
        books = codes.shape[1]
        for place in range(0, WIDE * books, LINE):
            fetch(codes, first * books + place)  # type: ignore[call-arg]


@compiled_in_place
def fetch_alive(alive: Array, spans: Tuple, lists: Array, p: int) -> None:
    """Asks for which items of the p-th of some lists count, where not all do."""
    if alive.size and p < lists.shape[0]:
        bounds, step = spans
        for place in range(bounds[step * lists[p]], bounds[step * lists[p] + 1], WIDE):
            fetch(alive, place)  # type: ignore[call-arg]


@compiled_in_place
def _inside(mask: Any, before: int, count: int) -> Any:
    """The mask without the first bits, and without those behind the end of a list."""
    mask >>= np.uint64(before)
    if count < WIDE:
        mask &= (ONE << np.uint64(count)) - ONE
    return mask


@compiled_in_place
def fetch_ids(short: Array, first: int) -> None:
    """Asks for the ids of 64 items, of four bytes each."""
    for some in range(first, first + WIDE, IDS):
        fetch(short, some)  # type: ignore[call-arg]


@compiled_in_place
def _take(columns: Tuple, table: Array, heap: Tuple, found: tuple[Any, int]) -> None:
    """Offers the items behind a place that a mask names.

    As ``offer`` does, which would be handed all columns for each item anew: that takes
    as long as the rest of the scan.
    """
    (mask, first), (distances, keys, places) = found, heap
    codes, bias, short, long, words = columns[:5]
    flat = table.reshape(table.size)
    while mask != 0:
        at: int = first + lowest_bit(mask)  # type: ignore[call-arg]
        mask &= mask - ONE
        total = (
            eight_sum(flat, words[at])
            if words.size
            else row_sum(codes, bias, at, table)
        )
        if total <= distances[0]:
            key = key_of(short, long, columns[5], at)
            if total < distances[0] or key < keys[0]:
                push(distances, keys, places, (total, key, columns[6] + at))

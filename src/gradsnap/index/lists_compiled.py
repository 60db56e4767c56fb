"""Scans of other items for each query, compiled: its lists.

One query at a time, with one table, or one for each of its lists. What
``scanning`` does in plain torch, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled, compiled_in_place
from gradsnap.index.chosen_compiled import SOME, scan_few
from gradsnap.index.heaps_compiled import key_of, offer, push
from gradsnap.index.shuffles_compiled import ALL as ALL_NEAR
from gradsnap.index.shuffles_compiled import (
    BYTES,
    SIDE_BY_SIDE,
    limit_of,
    living,
    lowest_bit,
    lows_of,
    near_here,
    scale_of,
    shrink,
)
from gradsnap.index.sums_compiled import eight_sum, halves_sum, sum_at, sum_block
from gradsnap.index.wide_compiled import ENTRIES, HAS_WIDE
from gradsnap.index.wide_lists_compiled import (
    AHEAD,
    can_scan_wide,
    fetch_alive,
    fetch_ids,
    scan_wide,
)
from gradsnap.lines_compiled import in_line

Array = NDArray[Any]
Heap = tuple[Array, Array, Array]
Spans = tuple[Array, int]
Near = tuple[Any, Any]
"""The sum of an item, and where it stands."""
Own = tuple[Array, Array]
"""Lists (p,) of one query, and its tables (1 or p, M, K)."""
Tuple = tuple[Any, ...]
Room = tuple[Array, Array, Array, Array]
"""Small tables, the least entries (M,) of codebooks, sums or a table (WORDS,), and
positions (SOME + 1,)."""

WORDS = 2048
"""Entries of a table of eight codebooks of 256."""

PAIRED = 16
"""Codewords a codebook of which a byte holds two codes."""

SLACK = np.float32(1 + 2**-18)
"""How far sums in another order can be apart, as a factor.

Adding 16 numbers that are not negative errs by at most 15 · 2⁻²⁴ of the sum, in any
order; two orders differ by twice that, and 2⁻¹⁸ is twice as much again.
"""

SHRUNK = np.float32(0.8)
"""Small tables are made anew where the worst result is so much nearer."""

ONE, TWO = np.uint64(1), np.uint64(2)
INFINITE = np.float32(np.inf)

BLOCK = 256
"""Codes added up before they are compared with the worst result."""


@compiled_in_place
def _span(spans: Spans, number: int) -> tuple[int, int]:
    """Where a list begins and ends."""
    bounds, step = spans
    return bounds[step * number], bounds[step * number + 1]


@compiled_in_place
def _fill(flat: Array, table: Array) -> None:
    """Fills flat (2048,) with a table (8, 256), or with sums of pairs of (≤ 16, 16)."""
    if table.shape[1] > PAIRED:
        entries = table.reshape(WORDS)
        for i in range(WORDS):
            flat[i] = entries[i]
        return
    for pair in range(BYTES):
        _fill_pair(flat[ENTRIES * pair : ENTRIES * (pair + 1)], table[2 * pair :])


@compiled_in_place
def _fill_pair(sums: Array, table: Array) -> None:
    """Sums (256,) of the entries of the first two codebooks of a table, or of one."""
    for high in range(PAIRED):
        for low in range(PAIRED):
            total = np.float32(0)
            if table.shape[0] > 0:
                total = table[0, low]
            if table.shape[0] > 1:
                total += table[1, high]
            sums[PAIRED * high + low] = total


@compiled_in_place
def _take(columns: Tuple, alive: Array, table: Array, heap: Heap, near: Near) -> Any:
    """Offers an item that may be near; what others must not be farther than.

    Paired codes were added in another order than that of the codebooks: once more.
    """
    total, at = near
    paired = table.shape[1] == PAIRED
    if alive.size == 0 or alive[at]:
        offer(heap, columns, sum_at(columns, at, table) if paired else total, at)
    return heap[0][0] * (SLACK if paired else np.float32(1))


@compiled_in_place
def _scan_words(
    columns: Tuple, alive: Array, spans: Spans, own: Own, heap: Heap, room: Room
) -> None:
    """Codes of eight bytes, two at a time: one comparison serves for both.

    Nothing is sliced and nothing called for each list, which takes longer than a short
    list does; unsigned positions spare a look at their sign.
    """
    lists, tables = own
    words, table, flat = columns[4], tables[0], room[2]
    _fill(flat, table)
    worst = heap[0][0] * SLACK
    for p in range(lists.shape[0]):
        if p > 0 and tables.shape[0] > 1:
            table = tables[p]
            _fill(flat, table)
        start, stop = _span(spans, lists[p])
        at, last = np.uint64(start), np.uint64(stop)
        while at < last:
            total = eight_sum(flat, words[at])
            other = total
            if at + ONE < last:
                other = eight_sum(flat, words[at + ONE])
            if min(total, other) <= worst:
                if total <= worst:
                    near = (total, np.int64(at))
                    worst = _take(columns, alive, table, heap, near)
                if other <= worst and at + ONE < last:
                    near = (other, np.int64(at) + 1)
                    worst = _take(columns, alive, table, heap, near)
            at += TWO


@compiled_in_place
def _scan_shuffled(
    columns: Tuple, alive: Array, spans: Spans, own: Own, heap: Heap, room: Room
) -> None:
    """Codes of 16 codewords a codebook, many at a time; see ``shuffles_compiled``."""
    lists, tables = own
    blocks, table, small, lows = columns[7], tables[0], room[0], room[1]
    low, scale, limit, worst = lows_of(table, lows), np.float32(0), ALL_NEAR, INFINITE
    for p in range(lists.shape[0]):
        if p > 0 and tables.shape[0] > 1:
            table = tables[p]
            low, worst = lows_of(table, lows), INFINITE
        fetch_alive(alive, spans, lists, p + AHEAD)
        start, stop = _span(spans, lists[p])
        for block in range(start // SIDE_BY_SIDE, -(-stop // SIDE_BY_SIDE)):
            counted = living(alive, SIDE_BY_SIDE * block)
            if counted == 0:
                continue
            if heap[0][0] < SHRUNK * worst:
                worst = heap[0][0]
                scale = scale_of(worst, low)
                shrink(table, lows, scale, small)
                limit = limit_of(worst, low, scale)
            near = near_here(blocks, block, small, limit)  # type: ignore[call-arg]
            mask = near & counted
            if mask != 0:
                _take_near(columns, table, heap, (mask, block, start, stop))
                if worst < INFINITE:
                    limit = limit_of(heap[0][0], low, scale)


@compiled_in_place
def _take_near(
    columns: Tuple, table: Array, heap: Heap, found: tuple[Any, int, int, int]
) -> None:
    """Offers the items of a block that a mask names, if they lie in their list.

    All that it reads is at hand: handing over all columns for each item anew takes
    longer.
    """
    (mask, block, start, stop), (distances, keys, places) = found, heap
    short, long, codes = columns[2], columns[3], columns[7][block]
    fetch_ids(short, SIDE_BY_SIDE * block)
    while mask != 0:
        place: int = lowest_bit(mask)  # type: ignore[call-arg]
        at = SIDE_BY_SIDE * block + place
        mask &= mask - ONE
        if start <= at < stop:
            total = halves_sum(table, codes, place)
            if total <= distances[0]:
                key = key_of(short, long, columns[5], at)
                if total < distances[0] or key < keys[0]:
                    push(distances, keys, places, (total, key, columns[6] + at))


@compiled_in_place
def _scan_blocks(
    columns: Tuple, alive: Array, spans: Spans, own: Own, heap: Heap, room: Room
) -> None:
    """Any codes, a block of them at a time."""
    lists, tables = own
    worst = heap[0][0]
    for p in range(lists.shape[0]):
        first, last = _span(spans, lists[p])
        for start in range(first, last, BLOCK):
            stop = min(start + BLOCK, last)
            sums = room[2][: stop - start]
            codes, bias = columns[0][start:stop], columns[1][start:stop]
            sum_block(sums, codes, bias, tables[p if tables.shape[0] > 1 else 0])
            for i in range(stop - start):
                if sums[i] <= worst and (alive.size == 0 or alive[start + i]):
                    offer(heap, columns, sums[i], start + i)
                    worst = heap[0][0]


@compiled_in_place
def _scanned_wide(
    columns: Tuple, alive: Array, spans: Spans, own: Own, heap: Heap, room: Room
) -> bool:
    """Whether ``scan_wide`` could scan them, and has."""
    if not HAS_WIDE or not can_scan_wide(columns[0], columns[1], own[1]):
        return False
    scan_wide(columns, alive, spans, own, heap, room)
    return True


@compiled
def _room(columns: Tuple, tables: Array) -> Room:
    """What scans write to on their way, for all queries."""
    size = PAIRED if columns[7].size else ENTRIES
    small = in_line(2 * BYTES * size, np.uint8).reshape(2 * BYTES, size)
    small[:] = 0
    lows, sums = np.empty(tables.shape[1], np.float32), np.empty(WORDS, np.float32)
    return small, lows, sums, np.empty(SOME + 1, np.int64)


@compiled
def scan_lists(
    columns: Tuple,
    counted: tuple[Array, bool],
    spans: Spans,
    lists: Array,
    tables: Array,
    heaps: Tuple,
) -> None:
    """Scans lists of its own for each query.

    Args:
        columns: ``Columns`` as a plain tuple.
        counted: which items count, bool (n,), or empty for all; and whether few do.
        spans: where lists begin and end, int64: list l is ``bounds[step * l]`` up to
            ``bounds[step * l + 1]``.
        lists: of each query, int64 (q, p).
        tables: float32 (t, M, K); one a query, or one for each of its lists.
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    room = _room(columns, tables)
    _scan_each(columns, counted, spans, (lists, tables), heaps, room)


@compiled_in_place
def _scan_each(
    columns: Tuple,
    counted: tuple[Array, bool],
    spans: Spans,
    all_lists: Own,
    heaps: Tuple,
    room: Room,
) -> None:
    """``scan_lists`` where there is room."""
    (alive, few), (lists, tables) = counted, all_lists
    each = tables.shape[0] // max(1, lists.shape[0])
    for q in range(lists.shape[0]):
        heap = (heaps[0][q], heaps[1][q], heaps[2][q])
        own = (lists[q], tables[q * each : (q + 1) * each])
        if columns[7].size:
            _scan_shuffled(columns, alive, spans, own, heap, room)
        elif few:
            scan_few(columns, alive, spans, own, heap, room)
        elif _scanned_wide(columns, alive, spans, own, heap, room):
            continue
        elif columns[4].size:
            _scan_words(columns, alive, spans, own, heap, room)
        else:
            _scan_blocks(columns, alive, spans, own, heap, room)

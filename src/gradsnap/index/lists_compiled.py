"""Scans of other items for each query, compiled: lists, or chosen positions.

One query at a time, with one table, or one for each of its lists. What
``scanning`` does in plain torch, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled
from gradsnap.index.heaps_compiled import offer
from gradsnap.index.sums_compiled import eight_sum, sum_at, sum_block

Array = NDArray[Any]
Heap = tuple[Array, Array, Array]
Span = tuple[int, int]
Tuple = tuple[Any, ...]

BLOCK = 256
"""Codes added up before they are compared with the worst result."""


@compiled
def _scan_words(
    columns: Tuple,
    alive: Array,
    span: tuple[int, int],
    table: Array,
    heap: Heap,
) -> None:
    """Scans a range of codes of eight codebooks of 256."""
    words, flat = columns[4], table.reshape(table.size)
    worst = heap[0][0]
    for at in range(span[0], span[1]):
        total = eight_sum(flat, words[at])
        if total <= worst and (alive.size == 0 or alive[at]):
            offer(heap, columns, total, at)
            worst = heap[0][0]


@compiled
def _scan_blocks(
    columns: Tuple,
    alive: Array,
    span: tuple[int, int],
    table: Array,
    heap: Heap,
) -> None:
    """Scans a range of any codes, a block at a time."""
    worst = heap[0][0]
    buffer = np.empty(BLOCK, np.float32)
    for start in range(span[0], span[1], BLOCK):
        count = min(BLOCK, span[1] - start)
        sums = buffer[:count]
        stop = start + count
        sum_block(sums, columns[0][start:stop], columns[1][start:stop], table)
        for i in range(count):
            if sums[i] <= worst and (alive.size == 0 or alive[start + i]):
                offer(heap, columns, sums[i], start + i)
                worst = heap[0][0]


@compiled
def _scan_few(
    columns: Tuple,
    alive: Array,
    span: tuple[int, int],
    table: Array,
    heap: Heap,
) -> None:
    """Scans a range where most items do not count: nothing is added up for those."""
    for at in range(span[0], span[1]):
        if alive[at]:
            offer(heap, columns, sum_at(columns, at, table), at)


@compiled
def scan_lists(
    columns: Tuple,
    counted: tuple[Array, bool],
    spans: tuple[Array, int],
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
    alive, few = counted
    bounds, step = spans
    own = tables.shape[0] > lists.shape[0]
    number = 0
    for q in range(lists.shape[0]):
        heap = (heaps[0][q], heaps[1][q], heaps[2][q])
        for at in lists[q] * step:
            span = (bounds[at], bounds[at + 1])
            table = tables[number if own else q]
            number += 1
            if few:
                _scan_few(columns, alive, span, table, heap)
            elif columns[4].size:
                _scan_words(columns, alive, span, table, heap)
            elif span[0] < span[1]:
                _scan_blocks(columns, alive, span, table, heap)


@compiled
def scan_chosen(
    columns: Tuple, positions: Array, tables: Array, heaps: Tuple
) -> None:
    """Scans the items at positions (r,), any order, for each query.

    Args:
        columns: ``Columns`` as a plain tuple.
        positions: int64 (r,), each once.
        tables: of the queries, float32 (q, M, K).
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    words = columns[4]
    for q in range(tables.shape[0]):
        heap = (heaps[0][q], heaps[1][q], heaps[2][q])
        table, flat = tables[q], tables[q].reshape(tables[q].size)
        worst = heap[0][0]
        for at in positions:
            if words.size:
                total = eight_sum(flat, words[at])
            else:
                total = sum_at(columns, at, table)
            if total <= worst:
                offer(heap, columns, total, at)
                worst = heap[0][0]

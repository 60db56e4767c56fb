"""The nearest lists, compiled: see ``probing``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled, compiled_strictly
from gradsnap.index.heaps_compiled import push, sort

Array = NDArray[Any]

BLOCK = 64
"""Scores of which it is counted first how many are small enough."""


@compiled_strictly  # what is no number must not pass for smaller
def _take(scores: Array, first: int, values: Array, chosen: Array) -> None:
    """Puts scores (e,), of columns from ``first`` on, into the heap of the smallest.

    One instruction counts for 16 of them whether they are small enough.
    """
    worst = values[0]
    for start in range(0, scores.shape[0], BLOCK):
        part = scores[start : start + BLOCK]
        count = 0
        for i in range(part.shape[0]):
            count += part[i] < worst
        if count == 0:
            continue
        for i in range(part.shape[0]):
            if part[i] < worst:
                at = np.int64(first + start + i)
                push(values, chosen, chosen, (part[i], at, at))
                worst = values[0]


@compiled
def _fill(chosen: Array, none: int) -> None:
    """Puts columns, ascending, behind those chosen (k,) where ``none`` is left.

    A score that is infinite or no number is smaller than nothing: such columns are
    the last, and there are as many of them as places.
    """
    column = 0
    for at in range(chosen.shape[0]):
        if chosen[at] == none:
            while np.any(chosen[:at] == column):
                column += 1
            chosen[at] = column


@compiled
def smallest(scores: Array, values: Array, chosen: Array) -> None:
    """The smallest scores of each row, ascending, equal ones by their column.

    Args:
        scores: float (q, n).
        values: filled with the scores, (q, k) with k ≤ n.
        chosen: filled with the columns, int64 (q, k).
    """
    values[:] = np.inf
    chosen[:] = scores.shape[1]
    for q in range(scores.shape[0]):
        _take(scores[q], 0, values[q], chosen[q])
        sort(values[q], chosen[q], chosen[q])
        _fill(chosen[q], scores.shape[1])


@compiled
def _score(row: Array, tile: Array, scores: Array) -> None:
    """Takes ⟨row, c⟩ of each c of a tile (dim, TILE) from scores (TILE,)."""
    whole = row.shape[0] // 4 * 4
    for j in range(0, whole, 4):
        a, b, c, d = row[j], row[j + 1], row[j + 2], row[j + 3]
        first, second, third, fourth = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for i in range(scores.shape[0]):
            two = (scores[i] - a * first[i]) - b * second[i]
            scores[i] = (two - c * third[i]) - d * fourth[i]
    for j in range(whole, row.shape[0]):
        for i in range(scores.shape[0]):
            scores[i] -= row[j] * tile[j, i]


@compiled
def nearest_centroids(
    rows: Array, tiles: Array, halves: Array, values: Array, chosen: Array
) -> None:
    """The nearest centroids of a few queries.

    Args:
        rows: queries (q, dim).
        tiles: centroids, (t, dim, TILE).
        halves: half their squared norms, (t · TILE,), infinite for padding.
        values: filled with scores, ascending, (q, k).
        chosen: filled with the centroids, int64 (q, k).
    """
    values[:] = np.inf
    chosen[:] = halves.shape[0]
    size = tiles.shape[2]
    scores = np.empty(size, rows.dtype)
    for t in range(tiles.shape[0]):
        start = t * size
        for q in range(rows.shape[0]):
            scores[:] = halves[start : start + size]
            _score(rows[q], tiles[t], scores)
            _take(scores, start, values[q], chosen[q])
    for q in range(rows.shape[0]):
        sort(values[q], chosen[q], chosen[q])
        _fill(chosen[q], halves.shape[0])


@compiled
def _sift(sums: Array, rows: Array, size: int) -> None:
    """Moves the root of a heap with the smallest sum first down to its place."""
    total, row = sums[0], rows[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and sums[child + 1] < sums[child]:
            child += 1
        if sums[child] >= total:
            break
        sums[at], rows[at] = sums[child], rows[child]
        at = child
    sums[at], rows[at] = total, row


@compiled
def _multi_sequence(left: Array, right: Array, sums: Array, chosen: Array) -> None:
    """Pairs of two tables (K,) by their sums; ``sums`` is room for K numbers.

    The multi-sequence algorithm: the next pair of every row of the first table that
    can be next waits in a heap. The row behind the last waits once that has begun.
    """
    words, others = np.argsort(left), np.argsort(right)
    rows = np.empty(left.shape[0], np.int64)
    taken = np.zeros(left.shape[0], np.int64)
    sums[0], rows[0] = left[words[0]] + right[others[0]], 0
    size, begun = 1, 1
    for i in range(chosen.shape[0]):
        row = rows[0]
        column = taken[row]
        chosen[i] = words[row] * left.shape[0] + others[column]
        taken[row] += 1
        if taken[row] < left.shape[0]:
            sums[0] = left[words[row]] + right[others[column + 1]]
        else:
            size -= 1
            sums[0], rows[0] = sums[size], rows[size]
        _sift(sums, rows, size)
        if column == 0 and begun < left.shape[0]:
            at, total = size, left[words[begun]] + right[others[0]]
            while at > 0 and sums[(at - 1) // 2] > total:
                sums[at], rows[at] = sums[(at - 1) // 2], rows[(at - 1) // 2]
                at = (at - 1) // 2
            sums[at], rows[at] = total, begun
            size += 1
            begun += 1


@compiled
def nearest_pairs(tables: Array, chosen: Array) -> None:
    """The pairs with the smallest sums for each query, ascending.

    Args:
        tables: of two codebooks, (q, 2, K).
        chosen: filled with ``a · K + b``, int64 (q, count), count ≤ K².
    """
    sums = np.empty(tables.shape[2], tables.dtype)
    for q in range(tables.shape[0]):
        _multi_sequence(tables[q, 0], tables[q, 1], sums, chosen[q])

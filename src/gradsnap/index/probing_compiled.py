"""The nearest lists, compiled: see ``probing``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.tiles import TILE
from gradsnap.coders.quantizers.tiles_compiled import FOUR, score_some
from gradsnap.compiled import compiled, compiled_in_place, compiled_strictly
from gradsnap.index.heaps_compiled import push, sort

Array = NDArray[Any]

BLOCK = 64
"""Scores of which it is counted first how many are small enough."""

COUNTED = 256
"""So many values are put into order by counting."""


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


@compiled_in_place
def _fill(chosen: Array, none: int) -> None:
    """Puts columns, ascending, behind those chosen (k,) where ``none`` is left.

    A score that is infinite or no number is smaller than nothing: such columns are
    the last, and there are as many of them as places.
    """
    column = 0
    for at in range(chosen.shape[0]):
        if chosen[at] == none:
            while _is_in(chosen[:at], column):
                column += 1
            chosen[at] = column


@compiled_in_place
def _is_in(chosen: Array, column: int) -> bool:
    """Whether a column is among those chosen (k,)."""
    found = False
    for i in range(chosen.shape[0]):
        found |= chosen[i] == column
    return found


@compiled_in_place
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
def nearest_centroids(
    rows: Array, tiles: Array, halves: Array, values: Array, chosen: Array
) -> None:
    """The nearest centroids of queries.

    Args:
        rows: queries (q, dim).
        tiles: centroids, (t, dim, TILE).
        halves: half their squared norms, (t · TILE,), infinite for padding.
        values: filled with scores, ascending, (q, k).
        chosen: filled with the centroids, int64 (q, k).
    """
    values[:] = np.inf
    chosen[:] = halves.shape[0]
    scores = np.empty(FOUR * TILE, rows.dtype)
    for t in range(tiles.shape[0]):
        _take_tile(rows, tiles[t], halves[TILE * t :], scores, TILE * t, values, chosen)
    for q in range(rows.shape[0]):
        sort(values[q], chosen[q], chosen[q])
        _fill(chosen[q], halves.shape[0])


@compiled_in_place
def _take_tile(
    rows: Array,
    tile: Array,
    halves: Array,
    scores: Array,
    first: int,
    values: Array,
    chosen: Array,
) -> None:
    """Puts the centroids of a tile, from the one named first on, into all heaps."""
    for start in range(0, rows.shape[0], FOUR):
        some = rows[start : start + FOUR]
        score_some(some, tile, halves, scores)
        for r in range(some.shape[0]):
            own = scores[TILE * r : TILE * (r + 1)]
            _take(own, first, values[start + r], chosen[start + r])


@compiled_in_place
def _below(bits: Array, limit: Any) -> int:
    """How many of bits, int32 (e,), are below a limit of their kind."""
    found = np.int32(0)
    for i in range(bits.shape[0]):
        found += np.int32(bits[i] < limit)
    return int(found)


@compiled
def _ranked(values: Array, ranks: Array, order: Array, ascending: Array) -> None:
    """Fills the order of values (K,) that are not negative, and them in it.

    A value has the rank of how many are smaller, and of equal ones the next that is
    free: registers count for many at once, which a sort of so few does not beat.
    ``ranks`` is room for K, int32.
    """
    if values.shape[0] > COUNTED:
        order[:] = np.argsort(values)
        ascending[:] = values[order]
        return
    _count_smaller(values.view(np.int32), ranks)
    order[:] = -1
    for i in range(values.shape[0]):
        rank = ranks[i]
        while order[rank] >= 0:
            rank += 1
        order[rank] = i
        ascending[rank] = values[i]


@compiled_in_place
def _count_smaller(bits: Array, ranks: Array) -> None:
    """Fills how many of bits, int32 (K,), are smaller than each; four at a time."""
    ranks[:] = 0
    whole = bits.shape[0] // FOUR * FOUR
    for i in range(0, whole, FOUR):
        a, b, c, d = bits[i], bits[i + 1], bits[i + 2], bits[i + 3]
        for j in range(bits.shape[0]):
            two = np.int32(a < bits[j]) + np.int32(b < bits[j])
            ranks[j] += two + (np.int32(c < bits[j]) + np.int32(d < bits[j]))
    for i in range(whole, bits.shape[0]):
        for j in range(bits.shape[0]):
            ranks[j] += np.int32(bits[i] < bits[j])


@compiled_in_place
def _shares(count: int, shares: Array) -> None:
    """Fills ``count // (i + 1)`` for each i, int32.

    By numbers of 64 bits that are no whole ones, which registers divide many of at
    once; they are exact for whole numbers of 32.
    """
    for i in range(shares.shape[0]):
        shares[i] = np.int32(np.float64(count) / np.float64(i + 1))


@compiled_in_place
def _least_pairs(
    left: Array, right: Array, count: int, shares: Array, sums: Array
) -> tuple[int, Any]:
    """Fills sums of the pairs that can be among the ``count`` smallest.

    Of values (K,) in ascending order, the pair at ranks (i, j), from one on, has i · j
    pairs up to its sum, itself included: with more than ``count`` it is none of them.
    ``shares`` are those of ``count`` among i ranks.

    Returns:
        How many sums there are, and one that at least ``count`` do not exceed.
    """
    size, filled = left.shape[0], 0
    most = left[size - 1] + right[size - 1]
    for i in range(shares.shape[0]):
        enough = shares[i] + (shares[i] * (i + 1) < count)
        if enough <= size:
            most = min(most, left[i] + right[enough - 1])
    for i in range(shares.shape[0]):
        length, first = min(size, shares[i]), left[i]
        if first + right[0] > most:
            break
        part = sums[filled : filled + length]
        for j in range(length):
            part[j] = first + right[j]
        filled += length
    return filled, most


@compiled
def _limit(sums: Array, count: int, least: Any, most: Any) -> tuple[Any, int]:
    """The ``count``-th smallest of sums (e,), and how many of those equal to it count.

    Found by halving the numbers between the least sum and ``most``: what is not
    negative has the order of its bits, and registers count many at once. Any number
    serves that as many sums do not exceed.
    """
    bits = sums.view(np.int32)
    ends = np.empty(2, np.float32)
    ends[0], ends[1] = least, most
    low, high = np.int64(ends.view(np.int32)[0]), np.int64(ends.view(np.int32)[1])
    below = 0
    while low < high:
        middle = (low + high) >> 1
        found = _below(bits, np.int32(middle + 1))
        if found == count:
            low = high = middle
        elif found > count:
            high = middle
        else:
            low, below = middle + 1, found
    ends.view(np.int32)[0] = high
    return ends[0], count - below


@compiled
def nearest_pairs(tables: Array, chosen: Array) -> None:
    """The pairs with the smallest sums for each query, the nearest one first.

    Args:
        tables: of two codebooks, not negative, float32 (q, 2, K).
        chosen: filled with ``a · K + b``, int64 (q, count), count ≤ K²: by a from near
            to far, and so by b.
    """
    size, count = tables.shape[2], chosen.shape[1]
    shares = np.empty(min(size, count), np.int32)
    _shares(count, shares)
    room = 0
    for i in range(shares.shape[0]):
        room += min(size, shares[i])
    sums = np.empty(room, np.float32)
    order, values = np.empty((2, size), np.int64), np.empty((2, size), np.float32)
    ranks = np.empty(size, np.int32)
    for q in range(tables.shape[0]):
        for half in range(2):
            _ranked(tables[q, half], ranks, order[half], values[half])
        left, right = values[0], values[1]
        filled, most = _least_pairs(left, right, count, shares, sums)
        limit = _limit(sums[:filled], count, left[0] + right[0], most)
        _choose(left, right, limit, order, chosen[q])


@compiled_in_place
def _choose(
    left: Array, right: Array, limit: tuple[Any, int], order: Array, chosen: Array
) -> None:
    """Fills in the pairs up to a limit, as many as there is room for.

    Args:
        left: values of the first table, ascending, (K,).
        right: the same of the second.
        limit: of the sums, and how many equal to it count.
        order: of both tables, (2, K).
        chosen: int64 (count,), filled.
    """
    most, equal = limit
    size, at = left.shape[0], 0
    for i in range(size):
        first = order[0, i] * size
        for j in range(size):
            total = left[i] + right[j]
            if at == chosen.shape[0] or total > most or (total == most and equal == 0):
                break
            equal -= total == most
            chosen[at] = first + order[1, j]
            at += 1
    for left_over in range(at, chosen.shape[0]):  # only where tables are no numbers
        chosen[left_over] = left_over

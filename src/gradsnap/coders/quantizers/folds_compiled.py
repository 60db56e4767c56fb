"""The sums within a limit by folding short lists two by two: see ``candidates``.

A codebook's list holds the gaps of its codewords to the nearest one. How many sums lie
below which limit is estimated from histograms of the lists, as the histogram of all
sums is their convolution. Then lists are added up two by two: the second one is
sorted into bins, so that how far one may go in it is looked up.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.appending_compiled import (
    BLOCK,
    HAS_WIDE,
    append,
    mark,
)
from gradsnap.coders.quantizers.smallest_compiled import count_within
from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]
Lists = tuple[Array, Array, Array]
"""Sums and codewords, (M, room) each, and how many there are, (M,).

The sums of a list of several codebooks stand where its first codebook is."""
Sums = tuple[Array, Array, Array]
"""Sums, and their places in the two lists they were added up from, (room,) each."""
Named = tuple[Array, Array]
"""Codewords that occur in the sums, (M, room), and how many there are, (M,)."""
Bins = tuple[Array, Array, Array, Array]
"""Histograms, (3, 2 · COARSE); where bins end, (BINS + 2,); what the bins hold: where
it was, and the sums, (room,) each."""

BINS, COARSE = 32, 16
"""Bins that lists are sorted into, and bins of the histograms."""
TOP = np.int32(BINS)
SHORT = 4096 if HAS_WIDE else 400
"""Of two lists with so few pairs all are tried."""
FOUR = 4
"""Sums are written so many at once, some in vain: that is faster than to branch."""
HALF, SAFELY = np.float32(0.5), np.float32(1 + 1e-5)


@compiled_in_place
def half(num_codebooks: int) -> int:
    """How many codebooks the left one of the last two lists stands for."""
    step = 1
    while 2 * step < num_codebooks:
        step *= 2
    return step


@compiled_in_place
def _shorten(gaps: Array, words: Array, count: int, limit: float) -> int:
    """Keeps the gaps within the limit; how many they are."""
    kept = 0
    for i in range(count):
        gap, word = gaps[i], words[i]
        gaps[kept] = gap
        words[kept] = word
        kept += gap <= limit
    return kept


@compiled_in_place
def _count(gaps: Array, count: int, scale: Any, counts: Array) -> None:
    """A histogram (COARSE,) of the gaps (count,)."""
    for i in range(COARSE):
        counts[i] = 0
    for i in range(count):
        counts[np.int32(gaps[i] * scale + HALF)] += 1


@compiled_in_place
def note(named: Named, m: int, words: Array, count: int) -> None:
    """Notes the codewords (count,) of codebook m that sums are made of."""
    named[1][m] = count
    for i in range(count):
        named[0][m, i] = words[i]


@compiled_in_place
def _convolve(totals: Array, counts: Array, spare: Array) -> None:
    """Makes a histogram of sums one of their sums with what was counted.

    Args:
        totals: (COARSE,), replaced.
        counts: (COARSE,).
        spare: (2 · COARSE,).
    """
    for i in range(2 * COARSE):
        spare[i] = 0
    for i in range(COARSE):
        often = counts[i]  # mostly zero, but to branch on it takes longer
        for j in range(COARSE):
            spare[i + j] += often * totals[j]
    for i in range(COARSE):
        totals[i] = spare[i]


@compiled_in_place
def _estimate(lists: Lists, reach: Any, wanted: Any, histograms: Array) -> Any:
    """A limit below which about as many sums lie as are wanted, at most the reach."""
    scale = COARSE / reach
    totals, counts, spare = histograms[0], histograms[1], histograms[2]
    _count(lists[0][0], lists[2][0], scale, totals)
    for m in range(1, lists[2].shape[0]):
        _count(lists[0][m], lists[2][m], scale, counts)
        _convolve(totals, counts, spare)
    found, i = totals[0], 1
    if found >= wanted:
        return HALF / scale
    while i < COARSE and found + totals[i] < wanted:
        found += totals[i]
        i += 1
    if i == COARSE:
        return reach
    return (i - HALF + (wanted - found) / totals[i]) / scale


@compiled_in_place
def _bin(values: Array, count: int, scale: Any, bins: Bins) -> None:
    """Sorts the values (count,) into bins, with where each was and where bins end."""
    _, ends, order, by_bin = bins
    ends[:] = 0
    for i in range(count):
        ends[min(np.int32(values[i] * scale), TOP) + 1] += 1
    for i in range(BINS):
        ends[i + 1] += ends[i]
    for i in range(count):
        b = min(np.int32(values[i] * scale), TOP)
        order[ends[b]] = i
        by_bin[ends[b]] = values[i]
        ends[b] += 1


@compiled_in_place
def _take_along(values: Array, places: Array, count: int, spare: Array) -> None:
    """Replaces the values by those at the places."""
    for i in range(count):
        spare[i] = values[places[i]]
    for i in range(count):
        values[i] = spare[i]


@compiled_in_place
def _add_block(first: Any, bins: Bins, j: int, sums: Sums, at: int) -> None:
    """Adds one sum to ``FOUR`` others; all are read before any is written."""
    _, _, order, by_bin = bins
    total, _, rights = sums
    a, b, c, d = by_bin[j], by_bin[j + 1], by_bin[j + 2], by_bin[j + 3]
    total[at], total[at + 1] = first + a, first + b
    total[at + 2], total[at + 3] = first + c, first + d
    e, f, g, h = order[j], order[j + 1], order[j + 2], order[j + 3]
    rights[at], rights[at + 1], rights[at + 2], rights[at + 3] = e, f, g, h


@compiled_in_place
def _join_short(lists: Lists, a: int, b: int, limit: Any, sums: Sums) -> int:
    """Adds up two lists that are so short that all pairs are tried."""
    total, lefts, rights = sums
    left, right = lists[0][a], lists[0][b]
    count = 0
    for i in range(lists[2][a]):
        start = count
        count = append(left[i], right, lists[2][b], limit, (total, rights), start)
        if count < 0:
            return -1
        mark(lefts, start, count, i)
    return count


@compiled_in_place
def _join_binned(
    lists: Lists, a: int, b: int, limit: Any, sums: Sums, bins: Bins
) -> int:
    """Adds up two lists, the second one sorted into bins, and few beyond the limit."""
    lefts, room = sums[1], sums[0].shape[0] - BLOCK
    left, scale = lists[0][a], BINS / (limit * SAFELY)
    _bin(lists[0][b], lists[2][b], scale, bins)
    count = 0
    for i in range(lists[2][a]):
        rest = (limit - left[i]) * SAFELY
        if rest >= 0:
            near = bins[1][np.int32(rest * scale)]
            if count + near > room:
                return -1
            for j in range(0, near, FOUR):
                _add_block(left[i], bins, j, sums, count + j)
                for at in range(FOUR):
                    lefts[count + j + at] = i
            count += near
    return count


@compiled_in_place
def _join(lists: Lists, a: int, b: int, limit: Any, sums: Sums, bins: Bins) -> int:
    """Adds up the lists at a and b within the limit, and maybe few beyond.

    Returns:
        How many sums there are, or -1 if there is no room for them.
    """
    pairs = lists[2][a] * lists[2][b]
    if pairs <= SHORT:
        return _join_short(lists, a, b, limit, sums)
    return _join_binned(lists, a, b, limit, sums, bins)


@compiled_in_place
def _keep(
    lists: Lists, ends: tuple[int, int, int], count: int, sums: Sums, bins: Bins
) -> None:
    """Puts joined sums, as they come, in the place of the two lists."""
    total, lefts, rights = sums
    a, b, end = ends
    for i in range(count):
        lists[0][a, i] = total[i]
    for m in range(a, b):
        _take_along(lists[1][m], lefts, count, bins[2])
    for m in range(b, end):
        _take_along(lists[1][m], rights, count, bins[2])
    lists[2][a] = count


@compiled_in_place
def _join_all(lists: Lists, limit: Any, sums: Sums, bins: Bins) -> int:
    num_codebooks = lists[2].shape[0]
    step, count = 1, lists[2][0]
    while step < num_codebooks:
        for a in range(0, num_codebooks - step, 2 * step):
            count = _join(lists, a, a + step, limit, sums, bins)
            if 2 * step >= num_codebooks or count < 0:
                return count
            ends = (a, a + step, min(a + 2 * step, num_codebooks))
            _keep(lists, ends, count, sums, bins)
        step *= 2
    return -1


@compiled_in_place
def fold_within(
    tables: tuple[Array, Array],
    reach: Any,
    k: int,
    wanted: Any,
    room: tuple[Lists, Sums, Bins, Named],
) -> int:
    """The k smallest sums of one gap per codebook, if all goes well, and some more.

    The codeword of codebook m in sum i is ``words[m, lefts[i]]`` if m is below
    ``half(M)``, else ``words[m, rights[i]]``.

    Args:
        tables: entries of one row (M, K), and the least of each codebook (M,).
        reach: how far a codeword may be beyond the nearest, above zero.
        k: how many there must be.
        wanted: how many are aimed at.
        room: filled.

    Returns:
        How many there are; 0 if the k smallest are not all among them.
    """
    (entries, lows), (lists, sums, bins, named) = tables, room
    gaps, words, counts = lists
    for m in range(entries.shape[0]):
        own, size = (gaps[m], words[m]), entries.shape[1]
        counts[m] = append(-lows[m], entries[m], size, reach, own, 0)
    limit = _estimate(lists, reach, wanted, bins[0])
    for m in range(entries.shape[0]):
        counts[m] = _shorten(gaps[m], words[m], counts[m], limit)
        note(named, m, words[m], counts[m])
    count = _join_all(lists, limit, sums, bins)
    return count if count_within(sums[0], count, limit) >= k else 0

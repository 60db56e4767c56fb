"""The k smallest sums, compiled: what ``candidates.smallest_sums`` does, on a CPU.

One row at a time: a limit on the sum is guessed from how near the row's nearest
codewords are, and how far that reached in the rows before; codewords below it make
short lists; the lists are added up one after the other, dropping what exceeds the
limit. Any partial sum is itself the sum of a full code (the nearest codeword everywhere
else), so the k-th smallest partial sum is always a valid limit: a wrong guess costs
time, never exactness.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.shortlists_compiled import (
    LANES,
    Lists,
    look,
    shortlist,
)
from gradsnap.compiled import compiled

Array = NDArray[Any]
Partial = tuple[Array, Array, Array]
"""Sums, where each came from and its last codeword, by codebook: (M + 1, room) each."""

BINS = 512
TOP_BIN = np.float32(BINS - 2)
INFINITE = np.float32(np.inf)
GUESS = np.float32(1.1)
RETRY = np.float32(1.05)
EIGHT, EIGHTH = np.float32(8), np.float32(0.125)
TINY = np.float32(1e-30)


@compiled
def _largest(values: Array, count: int) -> Any:
    top = values[0]
    for i in range(count):
        top = max(top, values[i])
    return top


@compiled
def _fill_bins(sums: Array, count: int, k: int, bins: Array) -> tuple[float, int, int]:
    """A histogram of the sums, cumulated up to the bin that holds the k-th smallest.

    Returns:
        What turns a sum into its bin, that last bin, and how many sums lie up to it.
    """
    scale = TOP_BIN / (_largest(sums, count) + TINY)
    bins[:] = 0
    for i in range(count):
        bins[int(sums[i] * scale) + 1] += 1
    last = 0
    while bins[last + 1] + bins[last] < k:
        bins[last + 1] += bins[last]
        last += 1
    return scale, last, bins[last] + bins[last + 1]


@compiled
def _move(partial: Partial, level: int, start: int, end: int) -> None:
    """Copies one partial sum, with where it came from, to another place."""
    sums, parents, words = partial
    sums[level, end] = sums[level, start]
    parents[level, end] = parents[level, start]
    words[level, end] = words[level, start]


@compiled
def _prune(
    partial: Partial, level: int, count: int, k: int, bins: Array
) -> tuple[int, float]:
    """Keeps the k smallest sums and few others; how many, and the largest kept."""
    sums = partial[0][level]
    scale, last, total = _fill_bins(sums, count, k, bins)
    if 2 * total > sums.shape[0]:  # one bin holds too many
        return _prune_exactly(partial, level, count, k)
    limit = sums[0] - sums[0]
    kept = 0
    for i in range(count):
        if int(sums[i] * scale) <= last:
            limit = max(limit, sums[i])
            _move(partial, level, i, kept)
            kept += 1
    return kept, limit


@compiled
def _prune_exactly(
    partial: Partial, level: int, count: int, k: int
) -> tuple[int, float]:
    """Keeps k smallest sums, however many tie with the k-th."""
    sums = partial[0][level]
    limit = np.sort(sums[:count])[k - 1]
    ties = k - np.sum(sums[:count] < limit)
    kept = 0
    for i in range(count):
        if sums[i] < limit or (sums[i] == limit and ties > 0):
            if sums[i] == limit:
                ties -= 1
            _move(partial, level, i, kept)
            kept += 1
    return kept, limit


@compiled
def order_smallest(
    sums: Array, count: int, k: int, starts: Array, order: Array
) -> None:
    """Positions of the k smallest sums in ascending order: buckets, then insertion."""
    scale, last, total = _fill_bins(sums, count, k, starts)
    for i in range(count):
        bucket = int(sums[i] * scale)
        if bucket <= last:
            order[starts[bucket]] = i
            starts[bucket] += 1
    for i in range(1, total):
        current = order[i]
        j = i
        while j > 0 and sums[order[j - 1]] > sums[current]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = current


@compiled
def _add_list(
    partial: Partial,
    near: tuple[Array, Array],
    m: int,
    count: int,
    limit: float,
    k: int,
    bins: Array,
) -> tuple[int, float]:
    """Adds the short list of codebook m to ``count`` partial sums."""
    sums, parents, words = partial
    gaps, short = near
    new = 0
    for i in range(count):
        for j in range(gaps.shape[0]):
            total = sums[m, i] + gaps[j]
            if total > limit:
                break
            if new == sums.shape[1]:
                new, limit = _prune(partial, m + 1, new, k, bins)
                if total > limit:
                    break
            sums[m + 1, new] = total
            parents[m + 1, new] = i
            words[m + 1, new] = short[j]
            new += 1
    if new > 2 * k:
        new, limit = _prune(partial, m + 1, new, k, bins)
    return new, limit


@compiled
def _fold(
    partial: Partial,
    tables: tuple[Array, Array],
    lists: Lists,
    limit: Any,
    k: int,
    bins: Array,
) -> int:
    """Adds up short lists of all codebooks within the limit; how many sums there are.

    Args:
        partial: filled.
        tables: entries of one row (M, K), and the least of each codebook (M,).
        lists: room for the short lists.
        limit: on the sums, less the sum of the least entries.
        k: how many sums are wanted.
        bins: scratch.
    """
    entries, lows = tables
    partial[0][0, 0] = 0
    count = 1
    for m in range(entries.shape[0]):
        near = shortlist(entries[m], lows[m], limit, lists)
        short = (lists[0][:near], lists[1])
        count, limit = _add_list(partial, short, m, count, limit, k, bins)
    return count


@compiled
def _next_guess(guess: Any, found: int, k: int, attempt: int) -> Any:
    if attempt > 3 or guess <= 0:
        return INFINITE
    return guess * RETRY * np.float32(k / max(found, 1)) ** EIGHTH


@compiled
def _next_share(share: float, limit: float, reach: float) -> Any:
    """The share of the reach that the next row may need, from one row more."""
    if reach <= 0 or limit <= 0:
        return share
    found = limit / reach
    return found if share == INFINITE else share + (found - share) / EIGHT


@compiled
def settle(distances: Array, codes: Array) -> None:
    """Sorts what is nearly sorted: rounding may have swapped neighbours."""
    for last in range(1, distances.shape[0]):
        i = last
        while i > 0 and distances[i - 1] > distances[i]:
            distances[i - 1], distances[i] = distances[i], distances[i - 1]
            for m in range(codes.shape[1]):
                codes[i - 1, m], codes[i, m] = codes[i, m], codes[i - 1, m]
            i -= 1


@compiled
def _write(
    partial: Partial, order: Array, tables: Array, distances: Array, codes: Array
) -> None:
    """Traces the best sums back to their codes, and adds up their entries."""
    _, parents, words = partial
    for m in range(codes.shape[1], 0, -1):
        for i in range(distances.shape[0]):
            at = order[i]
            codes[i, m - 1] = words[m, at]
            order[i] = parents[m, at]
    for i in range(distances.shape[0]):
        distances[i] = tables[0, codes[i, 0]]
    for m in range(1, codes.shape[1]):
        for i in range(distances.shape[0]):
            distances[i] += tables[m, codes[i, m]]


@compiled
def smallest_sums(tables: Array, k: int, distances: Array, codes: Array) -> None:
    """The k smallest sums of one entry per codebook, for each row, ascending.

    Args:
        tables: (n, M, K), entries.
        k: how many; at most K ** M.
        distances: (n, k), filled.
        codes: (n, k, M), filled.
    """
    rows, num_codebooks, size = tables.shape
    room = 4 * k + 64
    sums = np.empty((num_codebooks + 1, room), tables.dtype)
    parents = np.empty((num_codebooks + 1, room), np.int32)
    words = np.empty((num_codebooks + 1, room), np.int32)
    partial = (sums, parents, words)
    lists = (
        np.empty(min(size, k), tables.dtype),
        np.empty(min(size, k), np.int32),
        np.empty(size + 1, np.int32),
    )
    lanes = np.empty(min(size, LANES), tables.dtype)
    lows, scratch = np.zeros(num_codebooks, lanes.dtype), np.empty(size, lanes.dtype)
    bins = np.empty(BINS, np.int32)
    order = np.empty(room, np.int32)
    sums[0, 0] = INFINITE
    share = sums[0, 0]  # of the k-th sum in the reach, in the rows before
    for row in range(rows):
        reach = look(tables[row], lows, lanes, scratch)
        guess = share * GUESS * reach if reach > 0 else INFINITE
        count = 0
        attempt = 0
        while count < k:
            count = _fold(partial, (tables[row], lows), lists, guess, k, bins)
            attempt += 1
            guess = _next_guess(guess, count, k, attempt)
        order_smallest(sums[num_codebooks], count, k, bins, order)
        share = _next_share(share, sums[num_codebooks, order[k - 1]], reach)
        _write(partial, order, tables[row], distances[row], codes[row])
        settle(distances[row], codes[row])

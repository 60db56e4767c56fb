"""The k smallest sums, one codebook after the other, compiled: see ``candidates``.

For however many sums there are: what exceeds the limit is dropped, and the limit is
lowered whenever the room is full. Any partial sum is itself the sum of a full code (the
nearest codeword everywhere else), so the k-th smallest of them is a valid limit.
"""

from typing import Any

from numpy.typing import NDArray

from gradsnap.coders.quantizers.shortlists_compiled import Lists, shortlist
from gradsnap.coders.quantizers.smallest_compiled import fill_bins, limit_of_smallest
from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]
Partial = tuple[Array, Array, Array]
"""Sums, where each came from and its last codeword, by codebook: (M + 1, room) each."""


@compiled_in_place
def _move(partial: Partial, level: int, start: int, end: int) -> None:
    """Copies one partial sum, with where it came from, to another place."""
    sums, parents, words = partial
    sums[level, end] = sums[level, start]
    parents[level, end] = parents[level, start]
    words[level, end] = words[level, start]


@compiled_in_place
def _prune(
    partial: Partial, level: int, count: int, k: int, bins: Array
) -> tuple[int, float]:
    """Keeps the k smallest sums and few others; how many, and the largest kept."""
    sums = partial[0][level]
    scale, last, total = fill_bins(sums, count, k, bins)
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


@compiled_in_place
def _prune_exactly(
    partial: Partial, level: int, count: int, k: int
) -> tuple[int, float]:
    """Keeps k smallest sums, however many tie with the k-th."""
    sums = partial[0][level]
    limit = limit_of_smallest(sums, count, k)
    kept = 0
    for i in range(count):
        if sums[i] <= limit:
            _move(partial, level, i, kept)
            kept += 1
    return kept, limit


@compiled_in_place
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


@compiled_in_place
def fold_one_by_one(
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

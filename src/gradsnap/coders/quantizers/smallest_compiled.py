"""The k smallest of many numbers by a histogram, compiled: see ``candidates``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled

Array = NDArray[Any]

BINS = 512
TOP_BIN = np.float32(BINS - 2)
TINY = np.float32(1e-30)


@compiled
def largest(values: Array, count: int) -> Any:
    """The largest of the first values; four are compared at once."""
    a = b = c = d = values[0]
    for i in range(0, count - 3, 4):
        a, b = max(a, values[i]), max(b, values[i + 1])
        c, d = max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(count - count % 4, count):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))


@compiled
def fill_bins(sums: Array, count: int, k: int, bins: Array) -> tuple[float, int, int]:
    """A histogram of the sums, cumulated up to the bin that holds the k-th smallest.

    Returns:
        What turns a sum into its bin, that last bin, and how many sums lie up to it.
    """
    scale = TOP_BIN / (largest(sums, count) + TINY)
    bins[:] = 0
    for i in range(count):
        bins[int(sums[i] * scale) + 1] += 1
    last = 0
    while bins[last + 1] + bins[last] < k:
        bins[last + 1] += bins[last]
        last += 1
    return scale, last, bins[last] + bins[last + 1]


@compiled
def order_smallest(
    sums: Array, count: int, k: int, starts: Array, order: Array
) -> None:
    """Positions of the k smallest sums in ascending order: buckets, then insertion."""
    scale, last, total = fill_bins(sums, count, k, starts)
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
def choose_smallest(sums: Array, count: int, k: int, bins: Array, chosen: Array) -> Any:
    """Positions of the k smallest sums, in no order; returns the largest of them.

    Args:
        sums: (count,) or longer.
        count: at least k.
        k: how many.
        bins: scratch.
        chosen: filled up to k; needs room for ``count``.
    """
    scale = TOP_BIN / (largest(sums, count) + TINY)
    bins[:] = 0
    for i in range(count):
        bins[int(sums[i] * scale)] += 1
    last, left = BINS - 2, count - k  # from the top: few are to be left out
    while bins[last] <= left:
        left -= bins[last]
        last -= 1
    below, start = 0, k + left - bins[last]
    edge = start
    for i in range(count):
        bucket = int(sums[i] * scale)
        if bucket < last:
            chosen[below] = i
            below += 1
        elif bucket == last:  # few: sorted as they come
            j = edge
            while j > start and sums[chosen[j - 1]] > sums[i]:
                chosen[j] = chosen[j - 1]
                j -= 1
            chosen[j] = i
            edge += 1
    return sums[chosen[k - 1]]


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

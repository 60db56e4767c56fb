"""The k smallest of many numbers by a histogram, compiled: see ``candidates``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place, compiled_loosely

Array = NDArray[Any]

BINS = 512
TOP_BIN = np.float32(BINS - 2)
TINY = np.float32(1e-30)
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
INFINITE = np.float32(np.inf)
EDGE = np.float32(0.1)
"""The least part of what is left that a guess at a limit cuts off."""


@compiled_in_place
def largest(values: Array, count: int) -> Any:
    """The largest of the first values; four are compared at once."""
    a = b = c = d = values[0]
    for i in range(0, count - 3, 4):
        a, b = max(a, values[i]), max(b, values[i + 1])
        c, d = max(c, values[i + 2]), max(d, values[i + 3])
    for i in range(count - count % 4, count):
        a = max(a, values[i])
    return max(max(a, b), max(c, d))


@compiled_in_place
def added(values: Array) -> Any:
    """The values (n,) added up in their order."""
    total = ZERO
    for i in range(values.shape[0]):
        total += values[i]
    return total


@compiled_in_place
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


@compiled_in_place
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


@compiled_loosely
def count_within(values: Array, count: int, limit: Any) -> Any:
    """How many of the first values are at most the limit, as a float."""
    within = ZERO
    for i in range(count):
        within += ONE if values[i] <= limit else ZERO
    return within


@compiled_in_place
def _take_out(sums: Array, count: int, span: tuple[Any, Any], surplus: Any) -> None:
    """Makes some of the sums within the span infinite, the last of them."""
    for i in range(count - 1, -1, -1):
        if surplus > 0 and span[0] < sums[i] <= span[1]:
            sums[i] = INFINITE
            surplus -= ONE


@compiled_in_place
def limit_of_smallest(sums: Array, count: int, k: int) -> Any:
    """A limit within which exactly k of the sums lie, found by counting.

    Where sums tie at the limit, those that are too many become infinite.

    Args:
        sums: (count,) or longer; zero or more.
        count: at least k.
        k: how many.
    """
    low, high = -ONE, largest(sums, count)
    below, within = ZERO, np.float32(count)
    middle = ZERO
    while within > k and low < middle < high and high > 0:
        found = count_within(sums, count, middle)
        if found < k:
            low, below = middle, found
        else:
            high, within = middle, found
        share = (k + HALF - below) / (within - below)
        middle = low + (high - low) * np.float32(min(max(share, EDGE), ONE - EDGE))
    if within > k:
        _take_out(sums, count, (low, high), within - k)
    return high


@compiled_in_place
def settle(distances: Array, codes: Array) -> None:
    """Sorts what is nearly sorted: rounding may have swapped neighbours."""
    for last in range(1, distances.shape[0]):
        i = last
        while i > 0 and distances[i - 1] > distances[i]:
            distances[i - 1], distances[i] = distances[i], distances[i - 1]
            for m in range(codes.shape[1]):
                codes[i - 1, m], codes[i, m] = codes[i, m], codes[i - 1, m]
            i -= 1

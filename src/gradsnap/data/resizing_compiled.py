"""Kernels of ``gradsnap.data.resizing``: rows and columns of colour pictures."""

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled

Bytes = NDArray[np.uint8]

BITS = np.int32(22)
HALF = np.int32(1 << 21)
ONE_ON, TWO_ON, THREE_ON = np.uint64(1), np.uint64(2), np.uint64(3)
"""Unsigned steps: numba would look at every other index for less than zero."""


@compiled
def across(
    rows: Bytes, first: NDArray[np.uint64], weights: NDArray[np.int32], out: Bytes
) -> None:
    """Rows (h, 3w) of red, green and blue into out (h, n, 3), by taps (n,), (n, t)."""
    count, taps = weights.shape
    for y in range(len(rows)):
        row = rows[y]
        for x in range(count):
            red, green, blue = HALF, HALF, HALF
            place = first[x] * THREE_ON
            for tap in range(taps):
                weight = weights[x, tap]
                red += np.int32(row[place]) * weight
                green += np.int32(row[place + ONE_ON]) * weight
                blue += np.int32(row[place + TWO_ON]) * weight
                place += THREE_ON
            out[y, x, 0] = red >> BITS
            out[y, x, 1] = green >> BITS
            out[y, x, 2] = blue >> BITS


@compiled
def down(
    rows: Bytes, first: NDArray[np.uint64], weights: NDArray[np.int32], out: Bytes
) -> None:
    """Rows (h, w) into fewer or more of them, out (n, w), by taps (n,), (n, t)."""
    count, taps = weights.shape
    sums = np.empty(rows.shape[1], np.int32)
    for y in range(count):
        sums[:] = HALF
        for tap in range(taps):
            row, weight = rows[first[y] + np.uint64(tap)], weights[y, tap]
            for x in range(len(sums)):
                sums[x] += np.int32(row[x]) * weight
        for x in range(len(sums)):
            out[y, x] = sums[x] >> BITS

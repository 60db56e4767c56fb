"""Kernels of ``gradsnap.data.resizing``: rows and columns of colour pictures."""

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled, compiled_in_place
from gradsnap.lines_compiled import in_line

Bytes = NDArray[np.uint8]

BITS = np.int32(22)
HALF = np.int32(1 << 21)
THREE = 3
ONE_ON, TWO_ON, THREE_ON, SIX_ON = map(np.uint64, (1, 2, 3, 6))
"""Unsigned steps: numba would look at every other index for less than zero."""


@compiled_in_place
def across(
    rows: Bytes, first: NDArray[np.uint64], weights: NDArray[np.int32], out: Bytes
) -> None:
    """Rows (h, 3w) of red, green and blue into out (h, n, 3), by taps (n,), (n, t)."""
    count, taps = weights.shape
    if taps == THREE:
        _across_three(rows, first, weights, out)
        return
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


@compiled_in_place
def _across_three(
    rows: Bytes, first: NDArray[np.uint64], weights: NDArray[np.int32], out: Bytes
) -> None:
    """The same by three taps, as most have; without a loop it takes two thirds."""
    for y in range(len(rows)):
        row = rows[y]
        for x in range(len(first)):
            left, middle, right = weights[x, 0], weights[x, 1], weights[x, 2]
            for colour in range(3):
                place = first[x] * THREE_ON + np.uint64(colour)
                total = HALF + np.int32(row[place]) * left
                total += np.int32(row[place + THREE_ON]) * middle
                total += np.int32(row[place + SIX_ON]) * right
                out[y, x, colour] = total >> BITS


@compiled
def down(
    rows: Bytes, first: NDArray[np.uint64], weights: NDArray[np.int32], out: Bytes
) -> None:
    """Rows (h, w) into fewer or more of them, out (n, w), by taps (n,), (n, t)."""
    _down(rows, first, weights, in_line(rows.shape[1], np.int32), out)


@compiled_in_place
def _down(
    rows: Bytes,
    first: NDArray[np.uint64],
    weights: NDArray[np.int32],
    sums: NDArray[np.int32],
    out: Bytes,
) -> None:
    count, taps = weights.shape
    for y in range(count):
        for x in range(len(sums)):
            sums[x] = HALF
        for tap in range(taps):
            row, weight = rows[first[y] + np.uint64(tap)], weights[y, tap]
            for x in range(len(sums)):
                sums[x] += np.int32(row[x]) * weight
        for x in range(len(sums)):
            out[y, x] = sums[x] >> BITS

"""The streamed step of a product quantizer, compiled: see ``following``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]

HALF, ONE = np.float32(0.5), np.float32(1)
TINY = np.float32(np.finfo(np.float32).tiny)
NEARLY = 1 + 1e-5
"""Rounding of a mean is less than this."""


@compiled_in_place
def add_rows(rows: Array, codes: Array, batch: Array) -> None:
    """Adds rows (n, M · width), in their order, to where codes (n, M) say.

    Args:
        rows: blocks side by side.
        codes: of the rows.
        batch: counts and sums of the codewords, (M, K, 1 + width); added to.
    """
    width = batch.shape[2] - 1
    for row in range(rows.shape[0]):
        for m in range(batch.shape[0]):
            block, own = rows[row, m * width : (m + 1) * width], batch[m, codes[row, m]]
            own[0] += ONE
            sums = own[1:]
            for j in range(width):
                sums[j] += block[j]


@compiled_in_place
def _move(word: Array, sums: Array, count: Any, share: Any) -> None:
    """Moves a codeword (d,) by a share of the way to the mean of what it was given.

    As ``torch.lerp``, which rounds once: products of two floats are exact in double.
    """
    from_start = share < HALF
    part = np.float64(share if from_start else share - ONE)
    for j in range(word.shape[0]):
        mean = sums[j] / count
        start = word[j] if from_start else mean
        word[j] = np.float32(part * np.float64(mean - word[j]) + np.float64(start))


@compiled_in_place
def follow(
    centroids: Array, counts: Array, batch: Array, decay: Any, dead_share: float
) -> bool:
    """One step of sequential k-means in place; whether a codeword may be dead.

    Args:
        centroids: (M, K, width).
        counts: (M, K), their decayed weights.
        batch: counts and sums of the codewords, (M, K, 1 + width).
        decay: what remains of the earlier weight.
        dead_share: dead is a count at or below this share of the mean.
    """
    dead = False
    for m in range(centroids.shape[0]):
        total, least = 0.0, np.inf
        for k in range(centroids.shape[1]):
            new = batch[m, k, 0]
            count = counts[m, k] * decay + new
            counts[m, k] = count
            total += count
            least = min(least, count)
            if new > 0:
                share = new / max(count, TINY)
                _move(centroids[m, k], batch[m, k, 1:], max(new, ONE), share)
        dead |= least <= NEARLY * dead_share * total / centroids.shape[1]
    return dead

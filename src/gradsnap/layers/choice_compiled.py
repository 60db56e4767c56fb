"""Which candidate a gradient is snapped to, compiled: see ``snapping_compiled``.

The falloff of all candidates is bounded first, by numbers that wide registers find
several at a time; it is computed for those that may win, mostly one.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.smallest_compiled import INFINITE, largest
from gradsnap.compiled import compiled_in_place, compiled_loosely

Array = NDArray[Any]

TINY = np.float32(np.finfo(np.float32).tiny)
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
QUARTER, SIXTH = np.float32(1 / 4), np.float32(1 / 6)
LESS = np.float32(1 - 1e-4)
"""Rounding changes weights by less than this."""


@compiled_loosely
def measure(gaps: Array, along: Array, limit: Any, least: Any, slope: Any) -> Any:
    """Makes ⟨g, c⟩ to ⟨g, u⟩; returns the summed length of the offsets.

    Args:
        gaps: squared distances less the least, (n,).
        along: ⟨g, c⟩, (n,), replaced; by -∞ where the gap is beyond the limit.
        limit: on the gaps.
        least: the least squared distance.
        slope: ⟨g, y⟩.
    """
    total = ZERO
    for i in range(gaps.shape[0]):
        within = gaps[i] <= limit
        length = np.float32(math.sqrt(least + gaps[i]))
        steepness = (slope - along[i]) / max(length, TINY)
        total += length if within else ZERO
        along[i] = steepness if within else -INFINITE
    return total


@compiled_loosely
def _at_least(t: Any) -> Any:
    """A lower bound on exp(-t), t ≥ 0: that of t/4, its series up to an odd power."""
    t *= QUARTER
    root = max(ONE - t * (ONE - t * (HALF - t * SIXTH)), ZERO)
    return (root * root) * (root * root)


@compiled_loosely
def _at_most(t: Any) -> Any:
    """An upper bound on exp(-t), t ≥ 0: that of t/4, its series up to an even power."""
    t *= QUARTER
    root = ONE - t * (ONE - t * (HALF - t * (SIXTH - t * (SIXTH * QUARTER))))
    return (root * root) * (root * root)


@compiled_loosely
def _bound(
    gaps: Array, steepness: Array, falloff: tuple[Any, Any], rough: Array
) -> Any:
    """Fills rough w⟨g, u⟩ (n,), w too large; returns what that of the best reaches."""
    limit, rate = falloff
    for i in range(gaps.shape[0]):
        rough[i] = steepness[i] * _at_most(min(gaps[i], limit) * rate)
    bar, t = largest(rough, gaps.shape[0]), limit * rate
    true = max(LESS * _at_least(t) / _at_most(t), TINY)  # w is this part, or more
    return bar * true if bar >= 0 else bar / true


@compiled_in_place
def choose(gaps: Array, steepness: Array, limit: Any, rate: Any, rough: Array) -> int:
    """c* = argmax w⟨g, u⟩, the nearer on ties; w only of those that may win.

    Args:
        gaps: squared distances less the least, (n,).
        steepness: ⟨g, u⟩, (n,); -∞ where it cannot be chosen.
        limit: on the gaps of those that can.
        rate: 1/σ².
        rough: scratch, (n,).
    """
    bar, best, top = _bound(gaps, steepness, (limit, rate), rough), -1, -INFINITE
    for i in range(gaps.shape[0]):
        if rough[i] >= bar:
            score = steepness[i]
            if score != 0:
                score *= np.float32(math.exp(-gaps[i] * rate))
            if score > top or (score == top and gaps[i] < gaps[best]):
                best, top = i, score
    return best

"""The nearest codewords of one row in each codebook, compiled: see ``candidates``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.coders.quantizers.beam_compiled import lane_minima, lowest
from gradsnap.compiled import compiled

Array = NDArray[Any]
Lists = tuple[Array, Array, Array]
"""Gaps and codewords of a list, (room,) each, and scratch (K + 1,)."""

LANES = 16
FEW = 4
"""Gaps of each codebook by which the limit is guessed."""


@compiled
def _reach(lanes: Array, low: float) -> Any:
    """How far the nearest codewords are beyond the very nearest, summed.

    Args:
        lanes: the least entry of each lane, (lanes,); overwritten.
        low: the least of all.
    """
    total = low - low
    for i in range(min(FEW + 1, lanes.shape[0])):
        at = i
        for j in range(i + 1, lanes.shape[0]):
            at = j if lanes[j] < lanes[at] else at
        lanes[i], lanes[at] = lanes[at], lanes[i]
        total += lanes[i] - low
    return total


@compiled
def look(tables: Array, lows: Array, lanes: Array, scratch: Array) -> Any:
    """Fills the least entry of each codebook (M,); returns the reach of them all."""
    total = lows[0] - lows[0]
    for m in range(tables.shape[0]):
        lane_minima(tables[m], lanes, scratch)
        lows[m] = lowest(lanes)
        total += _reach(lanes, lows[m])
    return total


@compiled
def _within(entries: Array, low: float, limit: float, words: Array) -> int:
    """Fills words with those whose gap is within the limit; how many they are."""
    count = 0
    for word in range(entries.shape[0]):
        words[count] = word
        count += entries[word] - low <= limit
    return count


@compiled
def shortlist(entries: Array, low: float, limit: float, lists: Lists) -> int:
    """The nearest codewords within the limit, sorted; as many as the list holds.

    Args:
        entries: of one codebook, (K,).
        low: the least of them.
        limit: on the gap to it.
        lists: filled.

    Returns:
        How many they are.
    """
    gaps, words, near = lists
    room = gaps.shape[0]
    count = 0
    for word in near[: _within(entries, low, limit, near)]:
        gap = entries[word] - low
        if count == room and gap >= gaps[room - 1]:
            continue
        i = min(count, room - 1)
        while i > 0 and gaps[i - 1] > gap:
            gaps[i] = gaps[i - 1]
            words[i] = words[i - 1]
            i -= 1
        gaps[i] = gap
        words[i] = word
        count = min(count + 1, room)
    return count

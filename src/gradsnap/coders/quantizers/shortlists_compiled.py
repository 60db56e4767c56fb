"""The nearest codewords of one row in each codebook, compiled: see ``candidates``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.coders.quantizers.beam_compiled import lane_minima
from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]
Lists = tuple[Array, Array, Array]
"""Gaps and codewords of a list, (room,) each, and scratch (K + 1,)."""

LANES = 16
FEW = 5
"""Codewords of each codebook by which the limit is guessed."""


@compiled_in_place
def _reach(lanes: Array, wide: int) -> tuple[Any, Any]:
    """How far the nearest codewords are beyond the very nearest.

    Args:
        lanes: the least entry of each lane, (lanes,); the least of them comes first.
        wide: at most as many as there are lanes.

    Returns:
        The gaps of the ``FEW`` nearest, summed, and a bound on the gap of the
        ``wide``-th nearest.
    """
    total = lanes[0] - lanes[0]
    for i in range(min(max(FEW, wide), lanes.shape[0])):
        least = lanes[i]
        for j in range(i + 1, lanes.shape[0]):
            other = lanes[j]
            lanes[j] = max(least, other)
            least = min(least, other)
        lanes[i] = least
        if i < FEW:
            total += lanes[i] - lanes[0]
    return total, lanes[wide - 1] - lanes[0]


@compiled_in_place
def look(
    tables: Array, lows: Array, lanes: Array, scratch: Array, wide: int
) -> tuple[Any, Any]:
    """Fills the least entry of each codebook (M,); returns the reach of them all.

    Returns:
        How far the nearest codewords are, summed, and a limit below which there are
        ``wide ** M`` sums, less the least.
    """
    total, bound = lows[0] - lows[0], lows[0] - lows[0]
    for m in range(tables.shape[0]):
        lane_minima(tables[m], lanes, scratch)
        gaps, widest = _reach(lanes, wide)
        lows[m] = lanes[0]
        total += gaps
        bound += widest
    return total, bound


@compiled_in_place
def _within(entries: Array, low: float, limit: float, words: Array) -> int:
    """Fills words with those whose gap is within the limit; how many they are."""
    count = 0
    for word in range(entries.shape[0]):
        words[count] = word
        count += entries[word] - low <= limit
    return count


@compiled_in_place
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

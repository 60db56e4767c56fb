"""Results of several parts as one, exactly as one index would answer."""

import heapq
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

Found = tuple[Any, float]
"""An id and its distance."""


def merged(parts: Sequence[Sequence[Found]], k: int) -> list[Found]:
    """The k nearest of all parts, each nearest first.

    Equal distances are ordered as an index does: numbers by id; strings by when they
    were added, that is by part and by their place in it.

    Args:
        parts: results of each part, in the order of the parts.
        k: how many.

    Example:
        >>> merged([[(3, 0.5), (1, 2.0)], [(2, 0.5), (0, 1.0)]], k=3)
        [(2, 0.5), (3, 0.5), (0, 1.0)]
        >>> merged([[("b", 0.5)], [("a", 0.5)]], k=2)
        [('b', 0.5), ('a', 0.5)]
    """
    ordered = (_keyed(number, part) for number, part in enumerate(parts))
    best = itertools.islice(heapq.merge(*ordered), k)
    return [found for _, found in best]


def _keyed(
    number: int, part: Sequence[Found]
) -> Iterable[tuple[tuple[Any, ...], Found]]:
    for place, (one, far) in enumerate(part):
        tie = (number, place) if isinstance(one, str) else (one,)
        yield (far, *tie), (one, far)

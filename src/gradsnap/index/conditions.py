"""Conditions that were asked for lately, and what fulfils them.

Reading a column of a million values takes longer than a search does, and a page or a
script asks for the same condition again and again.
"""

import operator
from collections.abc import Sequence
from typing import Any

from gradsnap.index.filtering import Allowed, parts_of
from gradsnap.index.roots import Roots
from gradsnap.index.segment_columns import positions_where
from gradsnap.index.segments import Segment
from gradsnap.index.where import parse

MOST = 4
"""Conditions that are remembered."""

MOST_ITEMS = 2**22
"""Where more items fulfil a condition, it is not remembered: that takes memory."""


class Conditions:
    """What fulfils a condition, as long as the index stays as it is."""

    def __init__(self) -> None:
        self._state: list[Any] = []
        self._known: dict[str, list[Allowed]] = {}

    def allowed(
        self, where: str, segments: Sequence[Segment], roots: Roots
    ) -> list[Allowed]:
        """The items of each segment that fulfil a condition.

        Raises:
            InputError: it cannot be read, or names a column that is not there.
        """
        state = _state(segments, roots)
        same = len(state) == len(self._state)
        if not same or not all(map(operator.is_, state, self._state)):
            self._state, self._known = state, {}
        known = self._known
        if where in known:
            for part in known[where]:
                part.kept = True  # asked for twice: copies pay
            return known[where]
        positions = positions_where(list(segments), roots, parse(where))
        parts = parts_of(segments, positions)
        if sum(map(len, positions)) <= MOST_ITEMS:
            self._known = {**dict(list(known.items())[1 - MOST :]), where: parts}
        return parts


def _state(segments: Sequence[Segment], roots: Roots) -> list[Any]:
    """Objects that are others once items, names or metadata have changed."""
    own: list[Any] = [roots]
    for segment in segments:
        own += [segment, segment.removed, segment.stored, segment.names]
    return own

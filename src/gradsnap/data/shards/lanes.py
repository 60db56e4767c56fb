"""Which process has which shards, so that batches do not depend on how many there are.

Shards lie in lanes, as many as the settings say and however many processes there are: a
lane is a run of shards, a process has a run of lanes. A batch takes its rows from all
lanes, each in proportion to its items, and so it is the same whoever holds the lanes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradsnap.errors import InputError

LANES = 16
"""A number that many numbers of processes divide; a process needs at least one."""


class Lanes(NamedTuple):
    """The lanes of one process."""

    own: range
    """Their numbers."""
    total: int
    """Lanes of all processes."""
    starts: NDArray[np.int64]
    """The first of this process's items in each of its lanes, and their number."""

    def lane_of(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the lane of each of this process's items, (m,)."""
        found = np.searchsorted(self.starts, items, side="right") - 1
        return np.asarray(found + self.own.start, dtype=np.int64)


def run_of(count: int, number: int, parts: int) -> range:
    """Which of ``count`` things are in part ``number`` of ``parts``.

    >>> [list(run_of(5, number, 2)) for number in range(2)]
    [[0, 1], [2, 3, 4]]
    """
    return range(count * number // parts, count * (number + 1) // parts)


def own_shards(shards: int, lanes: int, rank: int, world: int) -> list[range]:
    """The shards in each lane of a process.

    Args:
        shards: how many the source has.
        lanes: how many there are to be; no more than shards.
        rank: of the process.
        world: how many processes there are.

    Raises:
        InputError: there are more processes than shards, or than lanes.

    Example:
        >>> own_shards(5, 4, rank=1, world=2)
        [range(2, 3), range(3, 5)]
    """
    count = min(lanes, shards)
    if world > shards:
        raise InputError(
            f"{shards} shards are too few for {world} processes: each needs one of its "
            "own; write more and smaller shards, or start fewer processes"
        )
    if world > count:
        raise InputError(
            f"data.lanes={lanes} feeds at most {lanes} processes, and there are "
            f"{world}: give data.lanes={world}"
        )
    return [run_of(shards, lane, count) for lane in run_of(count, rank, world)]

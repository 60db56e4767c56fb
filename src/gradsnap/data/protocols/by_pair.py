"""Items divided where pairs are known, so that no held-out item has trained."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.protocols.protocol import (
    Indices,
    Split,
    as_split,
    check_fraction,
    join,
    random_keys,
)
from gradsnap.errors import InputError

PAIR_PROTOCOLS = ("components", "items")
"""What is held out as a whole: all that alike pairs connect, or single items."""


def components(pairs: Tensor, count: int) -> Tensor:
    """The group of each of ``count`` items that pairs (m, 2) connect, int64 (count,).

    Example:
        >>> components(torch.tensor([[0, 2], [2, 3]]), 5)
        tensor([0, 1, 0, 0, 2])
    """
    from scipy.sparse import coo_array  # a third of a second, for those who need it
    from scipy.sparse.csgraph import connected_components

    one, other = pairs.T.numpy()
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(count, count))
    _, groups = connected_components(graph, directed=False)
    return torch.from_numpy(groups.astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class PairProtocol:
    """Holds out items with all the pairs they are in.

    By components: what alike pairs connect is held out as a whole. No alike pair is
    lost, and the figures are of things that training has never met, in any picture.
    By items: single items are held out, as queries are where there are labels, and
    their partners may have trained. It is the only way where pairs connect nearly
    everything, as clicks do, and the fair one where groups are as large as classes.
    """

    by: str | None = None
    """One of ``PAIR_PROTOCOLS``; None: components, unless one of them is larger than
    the part to hold out."""
    queries: float = 0.1
    """Share of the items that is held out for the last score."""
    validation: float = 0.1
    """Share of the rest that chooses."""

    def __post_init__(self) -> None:
        check_fraction("queries", self.queries)
        if self.by not in (None, *PAIR_PROTOCOLS):
            raise InputError(
                f"data.protocol {self.by!r} divides by labels; for pairs choose from "
                f"{', '.join(PAIR_PROTOCOLS)}"
            )

    def chosen(self, alike: Tensor, count: int) -> str:
        """What is held out as a whole, for alike pairs (m, 2) of ``count`` items."""
        if self.by is not None:
            return self.by
        groups = components(alike, count)[alike.unique()]
        largest = int(groups.bincount().max())
        return "components" if largest <= self.queries * len(groups) else "items"

    def split(self, alike: Tensor, unlike: Tensor, count: int, seed: int) -> Split:
        """Divides the items that are in pairs; the others are in the database alone.

        Args:
            alike: int64 (m, 2).
            unlike: int64 (u, 2).
            count: of all items.
            seed: draws what is held out.
        """
        units = torch.arange(count)
        if self.chosen(alike, count) == "components":
            units = components(alike, count)
        loved = alike.unique().numpy()
        rest = np.setdiff1d(unlike.unique().numpy(), loved)
        # both kinds are held out in the same share, so that few alike ones are no risk
        parts = [self._divide(part, units.numpy(), seed) for part in (loved, rest)]
        train, validation, queries = (join(part) for part in zip(*parts, strict=True))
        database = np.setdiff1d(np.arange(count), queries)
        return as_split(train, queries, database, validation, train)

    def _divide(
        self, items: Indices, units: NDArray[np.int64], seed: int
    ) -> tuple[Indices, Indices, Indices]:
        """Training, validation and held-out items, units whole."""
        keys = random_keys(seed, 0, int(units.max()) + 1)
        order = np.argsort(keys[units[items]], kind="stable")
        drawn = items[order]  # units one after the other, in random order
        starts = np.flatnonzero(np.diff(units[drawn], prepend=-1))
        asked = _cut(starts, self.queries * len(items), len(items))
        chosen = asked
        if self.validation > 0:
            wanted = asked + self.validation * (len(items) - asked)
            chosen = _cut(starts, wanted, len(items))
        return drawn[chosen:], drawn[asked:chosen], drawn[:asked]


def _cut(starts: Indices, wanted: float, count: int) -> int:
    """The first place at or after ``wanted`` where a unit ends."""
    ends = np.append(starts, count)
    return int(ends[np.searchsorted(ends, wanted)])

"""Rows divided where nothing is known of them: some ask, the rest is searched."""

from dataclasses import dataclass

import numpy as np

from gradsnap.data.protocols.protocol import (
    Split,
    as_split,
    check_fraction,
    check_positive,
    random_keys,
    share,
)
from gradsnap.errors import InputError

ROW_PROTOCOLS = ("rows",)
"""The one way to divide rows without labels."""

FEWEST_ROWS = 100


@dataclass(frozen=True, kw_only=True)
class RowProtocol:
    """A share of all rows as queries; the rest trains and is searched.

    Both kinds of queries, of the last score and of validation, are never trained on.
    """

    queries: float = 0.1
    """Share of the rows that asks at the end."""
    most_queries: int = 2000
    """So many at most; the rest of the share is searched."""
    validation: float = 0.1
    """Share of the rest that asks while settings are chosen; also at most so many."""
    most_searched: int = 65_536
    """Rows that validation queries search, at most: a sample of those that train."""

    def __post_init__(self) -> None:
        check_fraction("queries", self.queries)
        check_positive("most_queries", self.most_queries)
        check_positive("most_searched", self.most_searched)

    def split(self, count: int, seed: int) -> Split:
        """The split of ``count`` rows; the same seed gives the same on every machine.

        Raises:
            InputError: too few rows.
        """
        if count < FEWEST_ROWS:
            raise InputError(
                f"learning from neighbours needs at least {FEWEST_ROWS} rows, "
                f"got {count}; gradsnap index takes any number, without training"
            )
        order = np.argsort(random_keys(seed, 0, count), kind="stable")
        asked = min(share(self.queries, count), self.most_queries)
        queries, rest = order[:asked], order[asked:]
        chosen = 0
        if self.validation > 0:
            chosen = min(share(self.validation, len(rest)), self.most_queries)
        validation, train = rest[:chosen], rest[chosen:]
        searched = train[: self.most_searched] if chosen else train[:0]
        return as_split(train, queries, rest, validation, searched)

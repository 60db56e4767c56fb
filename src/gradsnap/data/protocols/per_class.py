"""Queries drawn from each class, or held out by the publisher."""

from dataclasses import dataclass

import numpy as np

from gradsnap.data.protocols.protocol import (
    Parts,
    Pool,
    Protocol,
    check_fraction,
    check_positive,
    check_sizes,
    joined,
    shared_out,
    single_label_groups,
)
from gradsnap.errors import InputError


@dataclass(frozen=True)
class PaperProtocol(Protocol):
    """The paper's: a number of queries and of training items from each class.

    What is left is the database, with or without the training items: on CIFAR-10 that
    makes 59,000 or 54,000 images, and the paper does not say which it searched.

    Example:
        >>> import torch
        >>> labels = torch.arange(60_000) % 10
        >>> PaperProtocol().split(labels)  # doctest: +ELLIPSIS
        Split(train=5000, queries=1000, database=59000, validation=0, ...)
    """

    queries_per_class: int = 100
    """Items of each class that are test queries."""

    training_per_class: int = 500
    """Items of each class that train."""

    training_in_database: bool = True
    """Whether the queries also search the training items."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("queries_per_class", self.queries_per_class)
        check_positive("training_per_class", self.training_per_class)

    def _parts(self, pool: Pool) -> Parts:
        groups = single_label_groups(pool)
        asked, trained = self.queries_per_class, self.training_per_class
        kept = asked if self.training_in_database else asked + trained
        least = max(asked + trained, kept + 1)  # every query has something to find
        check_sizes(groups, least, f"{asked} queries and {trained} training items")
        train = joined(group[asked : asked + trained] for group in groups.values())
        queries = joined(group[:asked] for group in groups.values())
        return train, queries, joined(group[kept:] for group in groups.values())


@dataclass(frozen=True)
class FractionProtocol(Protocol):
    """A share of each class as queries; the rest trains and is searched.

    For a user's own data, whose classes may be of any size from two items. Multi-label
    items are drawn from all that have a label.
    """

    queries: float = 0.1
    """The share of each class that asks; at least one item."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("queries", self.queries)

    def _parts(self, pool: Pool) -> Parts:
        groups = pool.strata(pool.labelled())
        check_sizes(groups, 2, "a query and something to find")
        queries, rest = shared_out(groups, self.queries)
        return rest, queries, rest


@dataclass(frozen=True)
class IlsvrcProtocol(Protocol):
    """ILSVRC2012: all training images train and are searched; validation images ask.

    It serves every data set whose publisher held a part out: the test parts of MNIST
    and CIFAR-10 and the published lists of NUS-WIDE too.
    """

    def _parts(self, pool: Pool) -> Parts:
        apart = pool.held_out
        if apart is None or not apart.any() or apart.all():
            raise InputError(
                "IlsvrcProtocol needs held_out, bool (n,), with training items and "
                "queries; this data set has no published test part, so take another "
                "protocol"
            )
        train = np.flatnonzero(~apart)
        return train, np.flatnonzero(apart), train

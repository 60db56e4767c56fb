"""Protocols by class: items drawn from each, held out, or of classes never seen."""

from dataclasses import dataclass

import numpy as np

from gradsnap.data.protocols.protocol import (
    Indices,
    Parts,
    Pool,
    Protocol,
    check_fraction,
    check_positive,
    check_sizes,
    divide,
    join,
    random_keys,
    share,
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
        train = join(group[asked : asked + trained] for group in groups.values())
        queries = join(group[:asked] for group in groups.values())
        return train, queries, join(group[kept:] for group in groups.values())


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
        queries, rest = divide(groups, self.queries)
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


@dataclass(frozen=True)
class UnseenClasses(Protocol):
    """Training on some classes; queries and database are of the others only.

    Validation takes whole classes from the seen ones, so that a setting is chosen as it
    will be tested: on classes that training has not seen.
    """

    seen: float | tuple[int, ...] = 0.5
    """The share of the classes that train, drawn by the seed, or these classes."""

    queries_per_class: int = 100
    """Items of each unseen class that are test queries; the rest is the database."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.seen, float | int):
            check_fraction("seen", self.seen)
        else:
            object.__setattr__(self, "seen", tuple(self.seen))
        check_positive("queries_per_class", self.queries_per_class)

    def _parts(self, pool: Pool) -> Parts:
        groups = single_label_groups(pool)
        seen = self._seen_classes(list(groups), pool.seed)
        train = join(groups[label] for label in groups if label in seen)
        others = {label: groups[label] for label in groups if label not in seen}
        return train, *self._queries_and_database(others)

    def _cut_validation(self, train: Indices, database: Indices, pool: Pool) -> Parts:
        groups = pool.by_class(train)
        apart = _draw_classes(list(groups), self.validation, pool.seed, stream=2)
        if len(groups) - len(apart) < 2:
            raise InputError(
                f"{len(groups)} seen classes leave fewer than two for training after "
                f"{len(apart)} for validation"
            )
        rest = join(groups[label] for label in groups if label not in apart)
        others = {label: groups[label] for label in groups if label in apart}
        return rest, *self._queries_and_database(others)

    def _queries_and_database(
        self, groups: dict[int, Indices]
    ) -> tuple[Indices, Indices]:
        asked = self.queries_per_class
        check_sizes(groups, asked + 1, f"{asked} queries and something to find")
        queries = join(group[:asked] for group in groups.values())
        return queries, join(group[asked:] for group in groups.values())

    def _seen_classes(self, classes: list[int], seed: int) -> set[int]:
        if isinstance(self.seen, float | int):
            seen = _draw_classes(classes, self.seen, seed, stream=1)
        else:
            seen = set(self.seen)
        unknown = sorted(seen - set(classes))
        if unknown:
            raise InputError(
                f"seen names the classes {unknown}, which no item has; there are "
                f"{len(classes)} classes from {classes[0]} to {classes[-1]}"
            )
        if not 2 <= len(seen) < len(classes):
            raise InputError(
                f"seen must hold two classes or more and leave one; it holds "
                f"{len(seen)} of {len(classes)}"
            )
        return seen


def _draw_classes(
    classes: list[int], fraction: float, seed: int, stream: int
) -> set[int]:
    order = np.argsort(random_keys(seed, stream, len(classes)), kind="stable")
    return {classes[position] for position in order[: share(fraction, len(classes))]}

"""Training on some classes, searching the others."""

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
    joined,
    random_keys,
    share,
    single_label_groups,
)
from gradsnap.errors import InputError


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
        train = joined(groups[label] for label in groups if label in seen)
        others = {label: groups[label] for label in groups if label not in seen}
        return train, *self._asked_and_searched(others)

    def _validated(self, train: Indices, pool: Pool) -> Parts:
        groups = pool.by_class(train)
        apart = _drawn_classes(list(groups), self.validation, pool.seed, stream=2)
        if len(groups) - len(apart) < 2:
            raise InputError(
                f"{len(groups)} seen classes leave fewer than two for training after "
                f"{len(apart)} for validation"
            )
        rest = joined(groups[label] for label in groups if label not in apart)
        others = {label: groups[label] for label in groups if label in apart}
        return rest, *self._asked_and_searched(others)

    def _asked_and_searched(
        self, groups: dict[int, Indices]
    ) -> tuple[Indices, Indices]:
        asked = self.queries_per_class
        check_sizes(groups, asked + 1, f"{asked} queries and something to find")
        queries = joined(group[:asked] for group in groups.values())
        return queries, joined(group[asked:] for group in groups.values())

    def _seen_classes(self, classes: list[int], seed: int) -> set[int]:
        if isinstance(self.seen, float | int):
            seen = _drawn_classes(classes, self.seen, seed, stream=1)
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


def _drawn_classes(
    classes: list[int], fraction: float, seed: int, stream: int
) -> set[int]:
    order = np.argsort(random_keys(seed, stream, len(classes)), kind="stable")
    return {classes[position] for position in order[: share(fraction, len(classes))]}

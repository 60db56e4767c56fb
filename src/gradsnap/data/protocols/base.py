"""What all protocols share: checks, the validation part, and a seed that travels."""

import abc
import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np
from torch import Tensor

from gradsnap.data.protocols.splits import Indices, Pool, Split, as_split, joined
from gradsnap.errors import InputError

Parts = tuple[Indices, Indices, Indices]


@dataclass(frozen=True, kw_only=True)
class Protocol(abc.ABC):
    """Divides labels into training items, queries and database.

    The base checks the labels and cuts the validation part; a child says which items
    train, ask and are searched.
    """

    validation: float = 0.0
    """Share of the training part set apart for choosing settings, in [0, 1)."""

    def __post_init__(self) -> None:
        if not 0 <= self.validation < 1:
            raise InputError(f"validation must lie in [0, 1), got {self.validation}")

    def with_validation(self, fraction: float) -> Self:
        """The same protocol with this share of the training part set apart."""
        return dataclasses.replace(self, validation=fraction)

    def split(
        self, labels: Tensor, seed: int = 0, held_out: Tensor | None = None
    ) -> Split:
        """The split of these labels; the same seed gives the same on every machine.

        Args:
            labels: int64 (n,), or multi-hot bool (n, L).
            seed: draws the items, 0 or more.
            held_out: bool (n,), what the publisher set apart; see ``IlsvrcProtocol``.

        Raises:
            InputError: too few classes, or classes too small for the counts.
        """
        pool = Pool.of(labels, seed, held_out)
        train, queries, database = self._parts(pool)
        if self.validation == 0:
            nothing = np.empty(0, dtype=np.int64)
            return as_split(train, queries, database, nothing, nothing)
        train, validation, searched = self._validated(train, pool)
        return as_split(train, queries, database, validation, searched)

    @abc.abstractmethod
    def _parts(self, pool: Pool) -> Parts:
        """Training items, queries and database."""

    def _validated(self, train: Indices, pool: Pool) -> Parts:
        """What is left of ``train``, the validation queries, and what they search."""
        groups = pool.strata(train)
        check_sizes(groups, 2, "a validation part and a training part")
        validation, rest = shared_out(groups, self.validation)
        return rest, validation, rest


def check_positive(name: str, value: int) -> None:
    """Refuses a count below one."""
    if value < 1:
        raise InputError(f"{name} must be at least 1, got {value}")


def check_fraction(name: str, value: float) -> None:
    """Refuses a share that leaves nothing on one side."""
    if not 0 < value < 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value}")


def check_sizes(groups: dict[int, Indices], least: int, purpose: str) -> None:
    """Refuses classes with fewer than ``least`` items, and names the smallest."""
    small = {label: len(group) for label, group in groups.items() if len(group) < least}
    if not small:
        return
    label = min(small, key=lambda key: small[key])
    raise InputError(
        f"{len(small)} of {len(groups)} classes are too small: class {label} has "
        f"{small[label]} items, and {purpose} need at least {least} of each class"
    )


def single_label_groups(pool: Pool) -> dict[int, Indices]:
    """The items of each class in random order; refuses multi-hot labels."""
    if pool.multi_label:
        raise InputError(
            "this protocol needs one label an item, int64 (n,); for multi-hot "
            "labels take NuswideProtocol, FractionProtocol or IlsvrcProtocol"
        )
    return pool.by_class(pool.labelled())


def shared_out(groups: dict[int, Indices], fraction: float) -> tuple[Indices, Indices]:
    """A share of each group, and the rest of all."""
    cuts = {label: share(fraction, len(group)) for label, group in groups.items()}
    taken = joined(group[: cuts[label]] for label, group in groups.items())
    return taken, joined(group[cuts[label] :] for label, group in groups.items())


def share(fraction: float, count: int) -> int:
    """The nearest whole number to a share of ``count``; both sides keep at least one.

    >>> [share(0.1, count) for count in (2, 10, 48)]
    [1, 1, 5]
    """
    return max(1, min(count - 1, round(fraction * count)))

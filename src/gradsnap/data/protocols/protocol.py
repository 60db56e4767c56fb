"""A protocol divides labels into a split: what trains, what asks, what is searched."""

import abc
import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import InputError

Indices = NDArray[np.int64]

Parts = tuple[Indices, Indices, Indices]

MOSTLY = 0.5
"""Share of the database from which on it counts as what the network trained on."""


@dataclass(frozen=True, eq=False)
class Split:
    """Index tensors, int64 and ascending, into one data set."""

    train: Tensor
    """What the network and the codebooks learn from."""

    queries: Tensor
    """The test queries; nothing may be chosen by looking at them."""

    database: Tensor
    """What the queries search."""

    validation: Tensor
    """Queries for every choice of a setting, cut from the training part."""

    validation_database: Tensor
    """What the validation queries search: also from the training part, of items that
    train if most of the database does, of items set apart if not."""

    @property
    def num_training(self) -> int:
        """Items that train; more than ``train`` has where that is a sample."""
        return len(self.train)

    @property
    def validates_on_training(self) -> bool:
        """Whether validation queries search what trains, since most of the database is.

        The validation part then belongs to the database, too, as items that are new.
        """
        searched = self.validation_database
        return len(self.validation) > 0 and torch.equal(searched, self.train)

    @property
    def hash(self) -> str:
        """16 hexadecimal digits that name the split: sha256 of its index lists."""
        digest = hashlib.sha256()
        for field in fields(Split):
            indices = getattr(self, field.name).numpy().astype("<i8")
            digest.update(f"{field.name} {len(indices)}\n".encode())
            digest.update(indices.tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        parts = {field.name: getattr(self, field.name) for field in fields(Split)}
        sizes = (f"{name}={len(indices)}" for name, indices in parts.items())
        return f"Split({', '.join(sizes)}, hash={self.hash!r})"


def random_keys(seed: int, stream: int, count: int) -> NDArray[np.uint64]:
    """A random number for each of ``count`` things, the same on every machine.

    NumPy promises that ``SeedSequence`` and the raw stream of ``PCG64`` never change,
    which it does not promise for shuffles, nor torch for ``randperm``. So things are
    drawn in the order of these keys.
    """
    if seed < 0:
        raise InputError(f"seed must be zero or more, got {seed}")
    source = np.random.PCG64(np.random.SeedSequence([seed, stream]))
    return np.asarray(source.random_raw(count), dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Pool:
    """The labels to divide, with the random order in which items are drawn."""

    labels: NDArray[np.int64] | NDArray[np.bool_]
    """(n,) classes, or (n, L) multi-hot."""

    seed: int
    keys: NDArray[np.uint64]
    held_out: NDArray[np.bool_] | None

    @classmethod
    def of(cls, labels: Tensor, seed: int, held_out: Tensor | None) -> "Pool":
        """Checks the labels and draws a key for each item."""
        _check_dividable(labels)
        apart = None if held_out is None else held_out.numpy()
        if apart is not None and (
            apart.dtype != bool or apart.shape != labels.shape[:1]
        ):
            raise InputError(
                f"held_out must be bool ({len(labels)},), one for each label; got "
                f"{apart.dtype} of shape {apart.shape}"
            )
        return cls(labels.numpy(), seed, random_keys(seed, 0, len(labels)), apart)

    @property
    def multi_label(self) -> bool:
        """Whether an item may have several labels."""
        return self.labels.ndim == 2

    def shuffled(self, items: Indices) -> Indices:
        """The items in their random order."""
        return items[np.argsort(self.keys[items], kind="stable")]

    def labelled(self) -> Indices:
        """All items but those whose multi-hot labels are all zero."""
        if self.multi_label:
            return np.flatnonzero(self.labels.any(axis=1))
        return np.arange(len(self.labels))

    def by_class(self, items: Indices) -> dict[int, Indices]:
        """The items of each class, each in random order."""
        labels = self.labels[items]
        order = np.lexsort((self.keys[items], labels))
        classes, starts = np.unique(labels[order], return_index=True)
        groups = np.split(items[order], starts[1:])
        return dict(zip(classes.tolist(), groups, strict=True))

    def strata(self, items: Indices) -> dict[int, Indices]:
        """The items by class; multi-label items, having none, are one group."""
        return {0: self.shuffled(items)} if self.multi_label else self.by_class(items)


def join(parts: Iterable[Indices]) -> Indices:
    """All parts as one ascending list."""
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))


def as_split(
    train: Indices,
    queries: Indices,
    database: Indices,
    validation: Indices,
    validation_database: Indices,
) -> Split:
    """Index lists in any order as a Split."""
    parts = (train, queries, database, validation, validation_database)
    return Split(*(torch.from_numpy(join([part])) for part in parts))


def _check_dividable(labels: Tensor) -> None:
    if labels.ndim == 2 and labels.dtype == torch.bool:
        used = int(labels.any(dim=0).sum())
    elif labels.ndim == 1 and labels.dtype == torch.int64:
        used = len(labels.unique())
    else:
        raise InputError(
            f"expected labels int64 (n,) or bool (n, L), got {labels.dtype} of shape "
            f"{tuple(labels.shape)}"
        )
    if used < 2:
        raise InputError(
            f"retrieval needs at least two classes; these {len(labels)} items have "
            f"{used}"
        )


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
        train, validation, searched = self._cut_validation(train, database, pool)
        return as_split(train, queries, database, validation, searched)

    @abc.abstractmethod
    def _parts(self, pool: Pool) -> Parts:
        """Training items, queries and database."""

    def _cut_validation(self, train: Indices, database: Indices, pool: Pool) -> Parts:
        """What is left of ``train``, the validation queries, and what they search.

        Codes of items that trained rank better than those of new ones, most of all at
        high rates. So what is searched should be new where most of the database is.
        """
        groups = pool.strata(train)
        check_sizes(groups, 2, "a validation part and a training part")
        validation, rest = divide(groups, self.validation)
        apart = pool.strata(validation)
        few = min(len(group) for group in apart.values()) < 2
        if few or np.isin(database, train).mean() >= MOSTLY:
            return rest, validation, rest
        return rest, *divide(apart, 0.5)


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
        f"{small[label]} items, and {purpose} need at least {least} of each class; "
        "--method neighbors learns without labels"
    )


def single_label_groups(pool: Pool) -> dict[int, Indices]:
    """The items of each class in random order; refuses multi-hot labels."""
    if pool.multi_label:
        raise InputError(
            "this protocol needs one label an item, int64 (n,); for multi-hot "
            "labels take NuswideProtocol, FractionProtocol or IlsvrcProtocol"
        )
    return pool.by_class(pool.labelled())


def divide(groups: dict[int, Indices], fraction: float) -> tuple[Indices, Indices]:
    """A share of each group, and the rest of all."""
    cuts = {label: share(fraction, len(group)) for label, group in groups.items()}
    taken = join(group[: cuts[label]] for label, group in groups.items())
    return taken, join(group[cuts[label] :] for label, group in groups.items())


def share(fraction: float, count: int) -> int:
    """The nearest whole number to a share of ``count``; both sides keep at least one.

    >>> [share(0.1, count) for count in (2, 10, 48)]
    [1, 1, 5]
    """
    return max(1, min(count - 1, round(fraction * count)))

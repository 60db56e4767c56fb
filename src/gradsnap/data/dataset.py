"""The one shape all data sets have: items by index, labels, and names."""

import typing
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsnap.data.labels import check_labels
from gradsnap.data.protocols import Protocol, Split
from gradsnap.errors import InputError


class Items(typing.Protocol):
    """Images or vectors that are read when they are asked for."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> Tensor:
        """The items at indices (b,): uint8 (b, c, h, w) or float32 (b, dim)."""
        ...


@dataclass(frozen=True, eq=False)
class StoredItems:
    """Items that lie in memory as they are, images or vectors."""

    values: Tensor
    """uint8 (n, c, h, w) or float32 (n, dim)."""

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: Tensor) -> Tensor:
        """The items at indices (b,)."""
        return self.values[indices]


@dataclass(frozen=True, eq=False)
class Dataset(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Items with their labels and names; a ``torch.utils.data.DataLoader`` takes it.

    Items are read or decoded when they are asked for, so that the memory used does not
    grow with the data.
    """

    name: str
    """What it is called in results: ``"mnist"``, or a path."""

    items: Items
    """Images or vectors by index; ``items.batch(indices)`` reads several at once."""

    names: Sequence[str]
    """A name for each of the n items: a path, or a row of a file."""

    labels: Tensor | None = None
    """int64 (n,), or multi-hot bool (n, L); None where there are no labels."""

    classes: tuple[str, ...] = ()
    """The name of each class, or of each of the L labels."""

    held_out: Tensor | None = None
    """bool (n,): what the publisher set apart for testing; None where nothing was."""

    skipped: tuple[str, ...] = ()
    """Bad files that were left out because ``skip_bad`` was given."""

    def __post_init__(self) -> None:
        count = len(self.items)
        if count == 0:
            raise InputError(f"{self.name} holds no items")
        if len(self.names) != count:
            raise InputError(f"{self.name}: {len(self.names)} names for {count} items")
        if self.held_out is not None and self.held_out.shape != (count,):
            raise InputError(
                f"{self.name}: held_out must have shape ({count},), "
                f"got {tuple(self.held_out.shape)}"
            )
        if self.labels is not None:
            check_labels(self.labels, count, len(self.classes), self.name)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """One item and its label; the label is −1 where there are none."""
        position = range(len(self))[index]  # raises IndexError as a list does
        items, labels = self.batch(torch.tensor([position]))
        return items[0], labels[0]

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Several items and labels at once; faster than one by one.

        Args:
            indices: which items, int64 (b,).

        Returns:
            Items, uint8 (b, c, h, w) or float32 (b, dim), and labels (b,) or (b, L).
        """
        items = self.items.batch(indices)
        if self.labels is None:
            return items, torch.full((len(indices),), -1)
        return items, self.labels[indices]

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of the first item: (c, h, w) or (dim,)."""
        return tuple(self.items.batch(torch.tensor([0])).shape[1:])

    def split(self, protocol: Protocol, seed: int = 0) -> Split:
        """Divides the items as the protocol says; the same on every machine.

        Raises:
            InputError: there are no labels, or too few items for the protocol.
        """
        if self.labels is None:
            raise InputError(
                f"{self.name} has no labels, and {type(protocol).__name__} needs them"
            )
        return protocol.split(self.labels, seed, self.held_out)

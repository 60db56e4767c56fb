"""The one shape all data sets have, items by index with labels; and their batches."""

import dataclasses
import functools
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader

from gradsnap.data.protocols import Protocol, Split
from gradsnap.errors import InputError
from gradsnap.progress import track
from gradsnap.strings import PackedStrings

READ_AT_ONCE = 256
MOST_WORKERS = 256
"""More processes than any machine here has cores; a million would take it down."""


class Items(typing.Protocol):
    """Images or vectors that are read when they are asked for."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> Tensor:
        """The items at indices (b,): uint8 (b, c, h, w) or float32 (b, dim)."""
        ...


@typing.runtime_checkable
class ImageItems(Items, typing.Protocol):
    """Images that can also be read at another size."""

    def reading(self, side: int | None, channels: int | None) -> "ImageItems":
        """The same images at side × side pixels; None keeps what was given before."""
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
    """Images that were left out: bad ones with ``skip_bad``, those of a kind that
    nothing here decodes, and those without a class among others that have one."""

    ignored: int = 0
    """How many files were left out that are not images by their names."""

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

    @functools.cached_property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of the first item, (c, h, w) or (dim,); resized images are not read."""
        known: tuple[int, ...] | None = getattr(self.items, "item_shape", None)
        if known is not None:
            return known
        return tuple(self.items.batch(torch.tensor([0])).shape[1:])

    @property
    def holds_images(self) -> bool:
        """Whether items are images; asks no file that says so by its kind."""
        return isinstance(self.items, ImageItems) or len(self.item_shape) == 3

    def reading(self, side: int | None = None, channels: int | None = None) -> Self:
        """The same items, with images read at another size.

        The files are not listed again, nor looked at: what ``skip_bad`` left out stays
        left out.

        Args:
            side: side × side pixels; None keeps what the data were opened with.
            channels: 3 for colour, 1 for grey; None keeps what they were opened with.

        Raises:
            InputError: the items are vectors, or images kept in memory as they are.
        """
        if side is None and channels is None:
            return self
        if not isinstance(self.items, ImageItems):
            raise InputError(
                f"{self.name} cannot be read at side {side} with {channels} channels: "
                f"its items are not read from images"
            )
        return dataclasses.replace(self, items=self.items.reading(side, channels))

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


def check_labels(labels: Tensor, count: int, num_classes: int, source: str) -> None:
    """Refuses labels that do not fit ``count`` items and ``num_classes`` classes."""
    if len(labels) != count:
        raise InputError(f"{source}: {len(labels)} labels for {count} items")
    if labels.ndim == 2 and labels.dtype == torch.bool:
        if labels.shape[1] != num_classes:
            raise InputError(
                f"{source}: {labels.shape[1]} labels an item for {num_classes} names"
            )
        return
    if labels.ndim != 1 or labels.dtype != torch.int64:
        raise InputError(
            f"{source}: labels must be int64 (n,) or bool (n, L), got {labels.dtype} "
            f"of shape {tuple(labels.shape)}"
        )
    check_range(int(labels.min()), int(labels.max()), num_classes, source)


def check_range(low: int, high: int, num_classes: int, source: str) -> None:
    """Refuses class numbers low..high that are not all in 0..num_classes − 1."""
    if not 0 <= low <= high < num_classes:
        raise InputError(
            f"{source}: labels must lie in 0..{num_classes - 1}, got {low}..{high}"
        )


@dataclass(frozen=True, eq=False)
class OrderedBatches:
    """Every index once, in the given order; the last batch may be smaller."""

    indices: Tensor
    """int64 (n,)."""

    batch_size: int
    """Items a batch."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {self.batch_size}")

    def __len__(self) -> int:
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self.indices), self.batch_size):
            yield self.indices[start : start + self.batch_size].tolist()


def loader(
    dataset: Dataset,
    batches: Iterable[list[int]],
    workers: int = 0,
    context: str | None = None,
) -> DataLoader[tuple[Tensor, Tensor]]:
    """A torch loader of whole batches: items (b, …) and labels (b,) or (b, L).

    A worker reads a batch at a time, which for stored images and vectors is much faster
    than one item after the other. Worker processes stay alive between passes. Torch's
    global generator is not touched.

    Args:
        dataset: what to read.
        batches: index lists; iterated anew on every pass.
        workers: processes that decode; 0 decodes in this one.
        context: how processes are started: ``"fork"``, ``"spawn"`` or
            ``"forkserver"``; None is the platform's way.

    Example:
        >>> from gradsnap.data import open_digits
        >>> digits = open_digits()
        >>> for images, labels in loader(digits, OrderedBatches(torch.arange(4), 2)):
        ...     print(tuple(images.shape), labels.tolist())
        (2, 1, 8, 8) [0, 1]
        (2, 1, 8, 8) [2, 3]
    """
    if not 0 <= workers <= MOST_WORKERS:
        raise InputError(f"workers must be from 0 to {MOST_WORKERS}, got {workers}")
    return DataLoader(
        _BatchReader(dataset),
        batch_size=None,
        sampler=batches,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=context if workers else None,
        pin_memory=torch.cuda.is_available(),
        generator=Generator(),
    )


def in_memory(dataset: Dataset, indices: Tensor, workers: int = 0) -> Dataset:
    """A data set of the items at indices (m,), read once and kept.

    For a training part that is small enough, or that is read in random order from a
    file that is slow to read so. Ascending indices are read fastest.
    """
    batches = OrderedBatches(indices, READ_AT_ONCE)
    values: Tensor | None = None
    done = 0
    for items, _ in track(loader(dataset, batches, workers), f"reading {dataset.name}"):
        if values is None:
            values = items.new_empty((len(indices), *items.shape[1:]))
        values[done : done + len(items)] = items
        done += len(items)
    if values is None:
        raise InputError(f"there are no indices to read from {dataset.name}")
    return Dataset(
        name=dataset.name,
        items=StoredItems(values),
        names=PackedStrings.of(dataset.names[index] for index in indices.tolist()),
        labels=None if dataset.labels is None else dataset.labels[indices],
        classes=dataset.classes,
        held_out=None if dataset.held_out is None else dataset.held_out[indices],
        skipped=dataset.skipped,
        ignored=dataset.ignored,
    )


@dataclass(frozen=True, eq=False)
class _BatchReader(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """A data set whose "items" are whole batches."""

    dataset: Dataset

    def __getitem__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        return self.dataset.batch(torch.tensor(indices, dtype=torch.int64))

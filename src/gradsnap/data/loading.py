"""Batches of a data set, read and decoded in worker processes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader

from gradsnap.data.dataset import Dataset, StoredItems
from gradsnap.data.names import Names
from gradsnap.errors import InputError
from gradsnap.progress import track

READ_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class OrderedBatches:
    """Every index once, in the given order; the last batch may be smaller."""

    indices: Tensor
    """int64 (n,)."""

    batch_size: int
    """Items a batch."""

    def __post_init__(self) -> None:
        _check_batch_size(self.batch_size)

    def __len__(self) -> int:
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self.indices), self.batch_size):
            yield self.indices[start : start + self.batch_size].tolist()


@dataclass(frozen=True, eq=False)
class ShuffledBatches:
    """The indices in a new random order on every pass; all batches are full.

    What does not fill a batch is left out of that pass. The order is drawn when a pass
    begins, so that the generator's state then is all a resumed run needs.
    """

    indices: Tensor
    """int64 (n,)."""

    batch_size: int
    """Items a batch."""

    generator: Generator
    """Draws the order."""

    def __post_init__(self) -> None:
        _check_batch_size(self.batch_size)
        if self.batch_size > len(self.indices):
            raise InputError(
                f"batch_size {self.batch_size} is larger than the data, "
                f"{len(self.indices)} items"
            )

    def __len__(self) -> int:
        return len(self.indices) // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(len(self.indices), generator=self.generator)
        for block in self.indices[order].split(self.batch_size)[: len(self)]:
            yield block.tolist()


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
    if workers < 0:
        raise InputError(f"workers must be zero or more, got {workers}")
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
        names=Names(dataset.names[index] for index in indices.tolist()),
        labels=None if dataset.labels is None else dataset.labels[indices],
        classes=dataset.classes,
        held_out=None if dataset.held_out is None else dataset.held_out[indices],
        skipped=dataset.skipped,
    )


@dataclass(frozen=True, eq=False)
class _BatchReader(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """A data set whose "items" are whole batches."""

    dataset: Dataset

    def __getitem__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        return self.dataset.batch(torch.tensor(indices))


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")

"""What each step trains on: the same batches for a seed, on every process.

Batches are an endless sequence that depends on labels and seed alone. A resumed run
skips those it has had, so that nothing about them has to be stored; every process goes
through the same ones and takes its own rows.
"""

import itertools
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from gradsnap.data import (
    Augmentation,
    Augmentations,
    Dataset,
    ProjectiveJitter,
    RandomCrop,
    RandomFlip,
    Split,
    loader,
)
from gradsnap.errors import InputError
from gradsnap.inference.embedding import embed
from gradsnap.registry import build
from gradsnap.training.config import TrainingConfig
from gradsnap.training.processes import Processes, share
from gradsnap.triplets import SAMPLERS, Triplets


class Drawn(NamedTuple):
    """The items of one step."""

    indices: Tensor
    """Which items, int64 (b,)."""
    triplets: Triplets | None
    """Rows of the batch that form triplets, where those were drawn beforehand."""


class Batches(typing.Protocol):
    """An endless sequence of batches, the same on every pass."""

    def __iter__(self) -> Iterator[Drawn]: ...


@dataclass(frozen=True, eq=False)
class Shuffled:
    """The items in a new random order on every pass over them; all batches are full."""

    indices: Tensor
    """int64 (n,)."""
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        _check_size(self.batch_size, len(self.indices))

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        full = len(self.indices) // self.batch_size
        while True:
            order = torch.randperm(len(self.indices), generator=generator)
            for places in order.split(self.batch_size)[:full]:
                yield Drawn(self.indices[places], None)


@dataclass(frozen=True, eq=False)
class Balanced:
    """A few items of each of some classes, so that every item meets its like.

    With many classes a shuffled batch holds few pairs of one class. Classes take turns
    in random order; a class with fewer items than asked for gives some of them twice.
    """

    indices: Tensor
    """int64 (n,)."""
    labels: Tensor
    """int64 (n,), the class of each."""
    batch_size: int
    items_per_class: int
    seed: int

    def __post_init__(self) -> None:
        _check_size(self.batch_size, len(self.indices))
        if self.labels.ndim != 1:
            raise InputError("items_per_class needs one label an item, not several")
        at_once, rest = divmod(self.batch_size, self.items_per_class)
        if rest or not 2 <= at_once <= len(self.labels.unique()):
            raise InputError(
                f"a batch of {self.batch_size} with {self.items_per_class} items of a "
                f"class must hold a whole number of classes from 2 to "
                f"{len(self.labels.unique())}"
            )

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        members = [self.indices[self.labels == one] for one in self.labels.unique()]
        at_once = self.batch_size // self.items_per_class
        while True:
            turns = torch.randperm(len(members), generator=generator).split(at_once)
            for turn in turns:
                if len(turn) == at_once:
                    parts = [self._some(members[one], generator) for one in turn]
                    yield Drawn(torch.cat(parts), None)

    def _some(self, members: Tensor, generator: Generator) -> Tensor:
        rounds = -(-self.items_per_class // len(members))
        orders = [
            torch.randperm(len(members), generator=generator) for _ in range(rounds)
        ]
        return members[torch.cat(orders)[: self.items_per_class]]


@dataclass(frozen=True, eq=False)
class DrawnTriplets:
    """Triplets drawn from the whole training part, each item embedded once."""

    indices: Tensor
    """int64 (n,)."""
    labels: Tensor
    """int64 (n,) or bool (n, L), of each."""
    batch_size: int
    """Items a batch at most: a third as many triplets."""
    seed: int
    sampler: str
    """A key of ``SAMPLERS``."""
    options: dict[str, typing.Any]

    def __post_init__(self) -> None:
        _check_size(self.batch_size, len(self.indices))

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        sizes = {"labels": self.labels, "generator": generator}
        what = "choice of triplets"
        sampler = build(SAMPLERS, self.sampler, what, sizes, self.options)
        while True:
            rows, triplets = sampler.draw(max(1, self.batch_size // 3)).compact()
            yield Drawn(self.indices[rows], triplets)


@dataclass(frozen=True, eq=False)
class Part:
    """From a start on, the rows of each batch that one of several processes embeds."""

    batches: Batches
    start: int
    stop: int
    rank: int = 0
    world: int = 1

    def __iter__(self) -> Iterator[list[int]]:
        for drawn in itertools.islice(self.batches, self.start, self.stop):
            rows = share(len(drawn.indices), self.rank, self.world)
            yield drawn.indices[rows].tolist()

    def __len__(self) -> int:
        return self.stop - self.start


AUGMENTATIONS: dict[str, type[Augmentation]] = {
    "projective": ProjectiveJitter,
    "flip": RandomFlip,
    "crop": RandomCrop,
}


class Batch(NamedTuple):
    """What one step learns from."""

    inputs: Tensor
    """This process's rows, ready for the network, (b, …)."""
    labels: Tensor
    """Of the rows of all processes, (n,) or (n, L)."""
    triplets: Triplets | None
    """Rows of all processes that form triplets, where drawn beforehand."""


@dataclass(frozen=True, eq=False)
class Feed:
    """Items of a data set, as the part of the network that trains takes them."""

    dataset: Dataset
    split: Split
    prepare: nn.Module
    """From a batch as it is loaded to what the module takes."""
    config: TrainingConfig
    device: torch.device
    processes: Processes

    @property
    def labels(self) -> Tensor:
        """Of all items, (n,) or multi-hot (n, L)."""
        if self.dataset.labels is None:
            raise InputError(f"{self.dataset.name} has no labels to learn from")
        return self.dataset.labels

    def batches(self, start: int, stop: int) -> Iterator[Batch]:
        """The batches of the steps from start to stop; the same after a resume."""
        drawn = self._sequence()
        labels = self.labels
        part = Part(drawn, start, stop, self.processes.rank, self.processes.world)
        reader = loader(self.dataset, part, self.config.data.workers)
        several = itertools.islice(drawn, start, stop)
        for step, one, (items, _) in zip(itertools.count(start), several, reader):
            inputs = self.prepare(self._augment(items.to(self.device), step))
            target = labels[one.indices].to(self.device)
            triplets = one.triplets and one.triplets.to(self.device)
            yield Batch(inputs, target, triplets)

    def embed(self, module: nn.Module, indices: Tensor) -> Tensor:
        """Embeddings (n, dim) of items by the module, on its device."""
        whole = nn.Sequential(self.prepare, module)
        size = max(256, self.config.run.batch_size or 0)
        workers = self.config.data.workers
        rows = embed(
            whole,
            self.dataset,
            indices,
            batch_size=size,
            workers=workers,
            engine="torch",  # the weights change from one call to the next
        )
        return rows.to(self.device)

    def _sequence(self) -> Batches:
        run, train = self.config.run, self.split.train
        labels, size = self.labels[train], run.batch_size or len(train)
        loss = self.config.loss
        if loss.name == "triplet" and loss.triplets in SAMPLERS:
            options = loss.triplet_options
            return DrawnTriplets(train, labels, size, run.seed, loss.triplets, options)
        if run.items_per_class:
            return Balanced(train, labels, size, run.items_per_class, run.seed)
        return Shuffled(train, size, run.seed)

    def _augment(self, items: Tensor, step: int) -> Tensor:
        names = self.config.data.augment
        if not names:
            return items
        pixels = items / 255 if items.dtype == torch.uint8 else items
        seed = (self.config.run.seed << 40) + (self.processes.rank << 32) + step
        augment = Augmentations([AUGMENTATIONS[name]() for name in names])
        return augment(pixels, Generator().manual_seed(seed % 2**63))


def _check_size(batch_size: int, items: int) -> None:
    if batch_size > items:
        raise InputError(
            f"run.batch_size {batch_size} is larger than the training part, "
            f"{items} items"
        )

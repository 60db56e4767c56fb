"""What a step trains on: batches of items, augmented, on the right device."""

import itertools
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
from gradsnap.training.batches import Balanced, Batches, DrawnTriplets, Part, Shuffled
from gradsnap.training.config import TrainingConfig
from gradsnap.training.processes import Processes
from gradsnap.triplets import SAMPLERS, Triplets

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
        drawn = self._drawn()
        labels = self.labels
        part = Part(drawn, start, stop, self.processes.rank, self.processes.world)
        reader = loader(self.dataset, part, self.config.data.workers)
        several = itertools.islice(drawn, start, stop)
        for step, one, (items, _) in zip(itertools.count(start), several, reader):
            inputs = self.prepare(self._augmented(items.to(self.device), step))
            target = labels[one.indices].to(self.device)
            triplets = one.triplets and one.triplets.to(self.device)
            yield Batch(inputs, target, triplets)

    def embed(self, module: nn.Module, indices: Tensor) -> Tensor:
        """Embeddings (n, dim) of items by the module, on its device."""
        whole = nn.Sequential(self.prepare, module)
        size = max(256, self.config.run.batch_size or 0)
        workers = self.config.data.workers
        rows = embed(whole, self.dataset, indices, batch_size=size, workers=workers)
        return rows.to(self.device)

    def _drawn(self) -> Batches:
        run, train = self.config.run, self.split.train
        labels, size = self.labels[train], run.batch_size or len(train)
        loss = self.config.loss
        if loss.name == "triplet" and loss.triplets in SAMPLERS:
            options = loss.triplet_options
            return DrawnTriplets(train, labels, size, run.seed, loss.triplets, options)
        if run.items_per_class:
            return Balanced(train, labels, size, run.items_per_class, run.seed)
        return Shuffled(train, size, run.seed)

    def _augmented(self, items: Tensor, step: int) -> Tensor:
        names = self.config.data.augment
        if not names:
            return items
        pixels = items / 255 if items.dtype == torch.uint8 else items
        seed = (self.config.run.seed << 40) + (self.processes.rank << 32) + step
        augment = Augmentations([AUGMENTATIONS[name]() for name in names])
        return augment(pixels, Generator().manual_seed(seed % 2**63))

"""What each step learns from: items read and prepared, with what is known of them."""

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
from gradsnap.inference.embedding import embed
from gradsnap.losses import Target
from gradsnap.training.batches import Batches, Drawn, Part
from gradsnap.training.config import TrainingConfig
from gradsnap.training.processes import Processes, share
from gradsnap.training.supervision import Supervision
from gradsnap.triplets import Triplets

AUGMENTATIONS: dict[str, type[Augmentation]] = {
    "projective": ProjectiveJitter,
    "flip": RandomFlip,
    "crop": RandomCrop,
}


class Batch(NamedTuple):
    """What one step learns from."""

    inputs: Tensor
    """This process's rows, ready for the network, (b, …)."""
    target: Target
    """Of the rows of all processes: labels (n,) or (n, L), or relations (n, n)."""
    triplets: Triplets | None
    """Rows of all processes that form triplets, where drawn beforehand."""
    mine: slice
    """Which of all rows the inputs are."""


@dataclass(frozen=True, eq=False)
class Feed:
    """Items of a data set, as the part of the network that trains takes them."""

    dataset: Dataset
    split: Split
    supervision: Supervision
    prepare: nn.Module
    """From a batch as it is loaded to what the module takes."""
    config: TrainingConfig
    device: torch.device
    processes: Processes

    def batches(self, start: int, stop: int) -> Iterator[Batch]:
        """The batches of the steps from start to stop; the same after a resume."""
        drawn = self.supervision.batches(self.config, self.split.train)
        reader = loader(
            self.dataset, self._part(drawn, start, stop), self.config.data.workers
        )
        several = itertools.islice(drawn, start, stop)
        for step, one, (items, labels) in zip(itertools.count(start), several, reader):
            inputs = self.prepare(self._augment(items.to(self.device), step))
            target, mine = self._told(one, labels)
            triplets = one.triplets and one.triplets.to(self.device)
            yield Batch(inputs, target.to(self.device), triplets, mine)

    def _part(self, drawn: Batches, start: int, stop: int) -> Part:
        """The rows that this process reads."""
        return Part(drawn, start, stop, self.processes.rank, self.processes.world)

    def _told(self, drawn: Drawn, labels: Tensor) -> tuple[Target, slice]:
        """What is known of the whole batch, and which of its rows were read here.

        Args:
            drawn: the batch.
            labels: of the rows that were read, (b,) or (b, L).
        """
        mine = share(len(drawn.indices), self.processes.rank, self.processes.world)
        return self.supervision.target(drawn.indices), mine

    @property
    def is_shared(self) -> bool:
        """Whether each process has items of its own, so that all must embed."""
        return False

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

    def _augment(self, items: Tensor, step: int) -> Tensor:
        names = self.config.data.augment
        if not names:
            return items
        pixels = items / 255 if items.dtype == torch.uint8 else items
        seed = (self.config.run.seed << 40) + (self.processes.rank << 32) + step
        augment = Augmentations([AUGMENTATIONS[name]() for name in names])
        return augment(pixels, Generator().manual_seed(seed % 2**63))

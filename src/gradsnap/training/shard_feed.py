"""What each step learns from where every process has shards of its own."""

from dataclasses import dataclass

from torch import Tensor, nn

from gradsnap.data import ShardedDataset
from gradsnap.losses import Target
from gradsnap.training.batches import Batches, Drawn, Part
from gradsnap.training.feed import Feed


@dataclass(frozen=True, eq=False)
class ShardFeed(Feed):
    """Items that one process has each; all take part in every call.

    Indices are numbers in the source, the same on all processes.
    """

    dataset: ShardedDataset

    @property
    def is_shared(self) -> bool:
        """They have."""
        return True

    def embed(self, module: nn.Module, indices: Tensor) -> Tensor:
        """Embeddings (n, dim) of items of all processes, on this one's device."""
        here = self.dataset.holds(indices)
        own = indices[here] - self.dataset.first
        # one item at least tells how long embeddings are
        rows = super().embed(module, own if len(own) else own.new_zeros(1))
        return self.processes.filled(rows[: len(own)], len(indices), here)

    def _part(self, drawn: Batches, start: int, stop: int) -> Part:
        """All rows that were drawn: they are this process's own."""
        return Part(drawn, start, stop)

    def _told(self, drawn: Drawn, labels: Tensor) -> tuple[Target, slice]:
        """The labels of all rows, each from the process that read it."""
        total = self.config.run.batch_size or 0
        mine = drawn.mine or slice(0, total)
        return self.processes.filled(labels, total, mine), mine

"""Embeddings of a data set as a stream of blocks, in memory that does not grow."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradsnap.data import Dataset
from gradsnap.inference.embedding import embed
from gradsnap.progress import track

BLOCK = 16_384
"""Rows held at once."""

SAMPLE_SEED = 0


@dataclass(frozen=True, eq=False)
class EmbeddingStream:
    """Blocks of embeddings (b, dim) of all items of a data set, in order.

    Args:
        dataset: images or vectors.
        network: makes embeddings; ``nn.Identity()`` takes vectors as they are.
        workers: processes that read and decode.
    """

    dataset: Dataset
    network: nn.Module
    workers: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def blocks(self, title: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Indices (b,) and embeddings (b, dim) of one block after the other."""
        count = len(self.dataset)
        for start in track(range(0, count, BLOCK), title):
            block = torch.arange(start, min(start + BLOCK, count))
            yield block, self._embedded(block)

    def sample(self, most: int) -> Tensor:
        """Embeddings of a seeded sample of at most ``most`` items, (n, dim).

        Drawn with repeats, which are dropped: no list of all items is ever held.
        """
        count = len(self.dataset)
        if count <= most:
            return self._embedded(torch.arange(count))
        generator = torch.Generator().manual_seed(SAMPLE_SEED)
        drawn = torch.randint(count, (most,), generator=generator)
        return self._embedded(drawn.unique())

    def _embedded(self, indices: Tensor) -> Tensor:
        return embed(self.network, self.dataset, indices, workers=self.workers)

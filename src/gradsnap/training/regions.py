"""Batches of rows that lie close together, so that each meets its neighbours."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from gradsnap.training.batches import Drawn


@dataclass(frozen=True, eq=False)
class Regions:
    """Some random rows, each with its nearest neighbours, make a batch.

    What a code has to tell apart are rows that lie near a query. In a batch of random
    rows there are hardly any.
    """

    rows: Tensor
    """Indices of the rows that may be drawn, int64 (n,)."""
    neighbors: Tensor
    """Places in ``rows`` of each row's nearest others, int64 (n, r)."""
    batch_size: int
    """Rows a batch at most: who is in two regions is there once."""
    seed: int

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        nearest = self.neighbors[:, : self.batch_size - 1]
        at_once = self.batch_size // (1 + nearest.shape[1])
        while True:
            centres = torch.randint(len(self.rows), (at_once,), generator=generator)
            around = nearest[centres].flatten()
            yield Drawn(self.rows[torch.cat([centres, around]).unique()], None)

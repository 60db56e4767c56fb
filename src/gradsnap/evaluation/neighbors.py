"""True nearest neighbours of rows that are read block by block."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.evaluation.distances import EmbeddingDistances
from gradsnap.progress import track

ROWS_AT_ONCE = 8192
"""Rows of a database that are read and compared at once."""

QUERIES_AT_ONCE = 4096
"""Queries that are compared with them at once."""

Rows = Callable[[Tensor], Tensor]
"""The rows, floating (n, dim), at indices (n,)."""


class Neighbors(NamedTuple):
    """The nearest rows of each query, nearest first."""

    distances: Tensor
    """Squared, (q, k)."""
    places: Tensor
    """int64 (q, k)."""


@torch.no_grad()
def true_neighbors(read: Rows, queries: Tensor, database: Tensor, k: int) -> Neighbors:
    """The k nearest rows of each query by squared distance, a row never its own.

    Holds a block of distances and never the whole database, so that a million rows
    that lie in a file can be searched.

    Args:
        read: rows by their indices.
        queries: indices, int64 (q,).
        database: indices, int64 (n,), ascending; k + 1 at least.
        k: how many.

    Returns:
        Squared distances (q, k), and places in ``database``, int64 (q, k); nearest
        first.

    Example:
        >>> rows = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
        >>> everything = torch.arange(4)
        >>> found = true_neighbors(lambda at: rows[at], everything, everything, k=1)
        >>> found.places.flatten()
        tensor([1, 0, 1, 2])
    """
    asking = read(queries)
    centre = asking.mean(dim=0)  # little cancels in distances around it
    asking = asking - centre
    near = torch.full((len(queries), k), torch.inf)
    where = torch.full((len(queries), k), -1)
    for start in track(range(0, len(database), ROWS_AT_ONCE), "finding neighbours"):
        some = database[start : start + ROWS_AT_ONCE]
        rows = read(some) - centre
        for first in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(first, first + QUERIES_AT_ONCE)
            found = EmbeddingDistances(asking[part], rows).block(slice(None)).cpu()
            found.masked_fill_(queries[part, None] == some, torch.inf)
            _merge(near[part], where[part], found, start)
    return Neighbors(near, where)


def _merge(near: Tensor, where: Tensor, found: Tensor, start: int) -> None:
    """Puts what a block found (q, b) among the nearest so far (q, k), in place."""
    k = near.shape[1]
    best, places = found.topk(min(k, found.shape[1]), dim=1, largest=False)
    both = torch.cat([near, best], dim=1)
    kept, order = both.topk(k, dim=1, largest=False)
    where.copy_(torch.cat([where, places + start], dim=1).gather(1, order))
    near.copy_(kept)

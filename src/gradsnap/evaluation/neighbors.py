"""Exact neighbours, and how many of them a ranking finds."""

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.evaluation.distances import Distances
from gradsnap.progress import track


@torch.no_grad()
def nearest_items(distances: Distances, k: int) -> Tensor:
    """The k nearest items of each query, nearest first, int64 (q, k); by blocks."""
    if not 1 <= k <= distances.num_items:
        raise InputError(f"k must be 1 to {distances.num_items} items, got {k}")
    rows = distances.block_rows
    parts = []
    for start in track(range(0, distances.num_queries, rows), "searching"):
        block = distances.block(slice(start, start + rows))
        parts.append(block.topk(k, dim=1, largest=False).indices)
    return torch.cat(parts)


def recall_at(found: Tensor, exact: Tensor, k: int) -> float:
    """Recall@k: the share of exact neighbours among the first k that were found.

    Args:
        found: ranked item numbers, (q, at least k); −1 where there is no result.
        exact: the true neighbours, (q, r), no number twice in a row; r = 1 asks for
            the nearest alone.
        k: how many results are looked at.

    Example:
        >>> recall_at(torch.tensor([[3, 1, 2]]), torch.tensor([[1, 0]]), k=2)
        0.5
    """
    if found.ndim != 2 or exact.ndim != 2 or len(found) != len(exact):
        raise InputError(
            f"expected found (q, k) and exact (q, r), got {tuple(found.shape)} and "
            f"{tuple(exact.shape)}"
        )
    if not 1 <= k <= found.shape[1]:
        raise InputError(f"k must be 1 to {found.shape[1]}, what was found; got {k}")
    if exact.numel() == 0:
        raise InputError("there are no exact neighbours to look for")
    total = 0
    for ours, theirs in zip(found[:, :k].split(256), exact.split(256), strict=True):
        total += int((ours[:, :, None] == theirs[:, None]).any(dim=1).sum())
    return total / exact.numel()

"""Retrieval metrics of ranked results."""

import torch
from torch import Tensor

from gradsnap.errors import InputError


def mean_average_precision(relevant: Tensor, total_relevant: Tensor) -> Tensor:
    """Mean over queries of the average precision of their ranked results.

    A query's average precision is the sum of the precision at each relevant result,
    divided by how many relevant items there are, or by k if that is less. A query with
    nothing to find counts as zero.

    Args:
        relevant: whether each result is relevant, in ranked order, (q, k), bool.
        total_relevant: relevant items in the database for each query, (q,).

    Returns:
        A scalar in 0 to 1.

    Example:
        >>> ranked = torch.tensor([[True, False, True]])
        >>> mean_average_precision(ranked, torch.tensor([2]))
        tensor(0.8333, dtype=torch.float64)
    """
    if relevant.ndim != 2 or total_relevant.shape != relevant.shape[:1]:
        raise InputError(
            f"expected relevant (q, k) and total_relevant (q,), got "
            f"{tuple(relevant.shape)} and {tuple(total_relevant.shape)}"
        )
    ranks = torch.arange(1, relevant.shape[1] + 1, device=relevant.device)
    precision = relevant.cumsum(dim=1).double() / ranks  # (q, k)
    divisor = total_relevant.clamp(1, max(relevant.shape[1], 1))
    return ((precision * relevant).sum(dim=1) / divisor).mean()

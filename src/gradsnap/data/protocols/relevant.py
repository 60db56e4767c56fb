"""Which database items are relevant to a query: same label, or a label in common."""

import torch
from torch import Tensor

from gradsnap.errors import InputError

BLOCK = 4096


def same_label(queries: Tensor, database: Tensor) -> Tensor:
    """Whether labels (q,) and (n,) are equal: bool (q, n)."""
    return queries[:, None] == database


def shares_label(queries: Tensor, database: Tensor) -> Tensor:
    """Whether multi-hot labels (q, L) and (n, L) have one in common: bool (q, n)."""
    return queries.float() @ database.float().T > 0


def relevance(queries: Tensor, database: Tensor) -> Tensor:
    """Relevance of every database item to every query, bool (q, n).

    Args:
        queries: labels of the queries, int64 (q,) or multi-hot bool (q, L).
        database: labels of the database, int64 (n,) or multi-hot bool (n, L).

    Example:
        >>> relevance(torch.tensor([1]), torch.tensor([0, 1, 1]))
        tensor([[False,  True,  True]])
    """
    _check_alike(queries, database)
    if queries.ndim == 2:
        return shares_label(queries, database)
    return same_label(queries, database)


def ranked_relevance(queries: Tensor, database: Tensor, ids: Tensor) -> Tensor:
    """Relevance of ranked results, as ``mean_average_precision`` takes it.

    Args:
        queries: labels of the queries, int64 (q,) or multi-hot bool (q, L).
        database: labels of the database, int64 (n,) or multi-hot bool (n, L).
        ids: ranked positions in the database, (q, k); −1 where there is no result.

    Returns:
        bool (q, k).
    """
    _check_alike(queries, database)
    found = database[ids.clamp_min(0)]  # (q, k) or (q, k, L)
    if queries.ndim == 2:
        return (found & queries[:, None]).any(dim=2) & (ids >= 0)
    return (found == queries[:, None]) & (ids >= 0)


def total_relevant(queries: Tensor, database: Tensor) -> Tensor:
    """How many database items are relevant to each query, int64 (q,).

    The (q, n) table is made a few thousand columns at a time, never whole.
    """
    _check_alike(queries, database)
    total = torch.zeros(len(queries), dtype=torch.int64, device=queries.device)
    for block in database.split(BLOCK):
        total += relevance(queries, block).sum(dim=1)
    return total


def _check_alike(queries: Tensor, database: Tensor) -> None:
    alike = queries.ndim == database.ndim and queries.shape[1:] == database.shape[1:]
    if not alike or queries.ndim not in (1, 2):
        raise InputError(
            f"expected labels (q,) and (n,), or multi-hot (q, L) and (n, L); got "
            f"{tuple(queries.shape)} and {tuple(database.shape)}"
        )

"""How well distances tell alike pairs from unlike ones, and find an item's partners."""

from collections.abc import Iterator

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError
from gradsnap.evaluation.card import RankingRules
from gradsnap.evaluation.distances import Distances
from gradsnap.evaluation.groups import groups_of_distances
from gradsnap.evaluation.metrics import average_precisions, hits_at

FARTHEST = 3e38
"""Stands for the distance of an item to itself, which is never a result."""

RULES = RankingRules(None, divisor="relevant", no_hit="zero")


def pair_distances(distances: Distances, pairs: Given) -> Tensor:
    """Distances (m,) of pairs int64 (m, 2): a row of the queries, and of the items."""
    pairs = as_tensor(pairs)
    found = torch.empty(len(pairs), device=distances.device)
    order = pairs[:, 0].argsort()
    sorted_rows = pairs[order, 0].contiguous()
    for rows, block in _blocks(distances):
        ends = torch.tensor([rows.start, rows.stop], device=pairs.device)
        low, high = torch.searchsorted(sorted_rows, ends).tolist()
        here = order[low:high]
        found[here] = block[pairs[here, 0] - rows.start, pairs[here, 1]]
    return found


def pair_average_precision(apart: Given, alike: Given) -> float:
    """Average precision of all pairs in the order of their distances, nearest first.

    Args:
        apart: distances (m,); ties in expectation over random orders.
        alike: bool (m,), some of them.

    Example:
        >>> alike = torch.tensor([True, False, True])
        >>> round(pair_average_precision(torch.tensor([1.0, 2, 3]), alike), 4)
        0.8333
    """
    apart, alike = as_tensor(apart), as_tensor(alike)
    _check_kinds(alike)
    groups = groups_of_distances(apart[None], alike[None], len(apart))
    total = alike.sum()[None]
    return float(average_precisions(groups, total, RULES, len(apart)))


def pair_auc(apart: Given, alike: Given) -> float:
    """The chance that an alike pair is nearer than an unlike one; a tie counts half.

    Example:
        >>> pair_auc(torch.tensor([1.0, 2, 3]), torch.tensor([1, 0, 1]) > 0)
        0.5
    """
    apart, alike = as_tensor(apart), as_tensor(alike)
    _check_kinds(alike)
    unlike = apart[~alike].sort().values
    near = apart[alike].contiguous()
    nearer = torch.searchsorted(unlike, near) + torch.searchsorted(
        unlike, near, right=True
    )
    return 1 - float(nearer.double().mean()) / 2 / len(unlike)


def partner_figures(
    distances: Distances, own: Tensor, partners: Tensor, points: tuple[int, ...]
) -> dict[str, float]:
    """How early each query finds its partners among all other items.

    Args:
        distances: of q queries to n items.
        own: the item that is the query itself, int64 (q,); it is no result.
        partners: pairs int64 (m, 2) of a query and an item it should find; at least
            one for each query.
        points: the N of recall at N.

    Returns:
        ``map``, the mean average precision, which is the mean reciprocal rank where
        each query has one partner; and ``recall_at_N``, ties in expectation.
    """
    precisions, recalls = [], []
    cut = distances.num_items
    ns = torch.tensor(points, device=distances.device)
    for rows, block in _blocks(distances):
        relevant = torch.zeros(block.shape, dtype=torch.bool, device=block.device)
        here = partners[(partners[:, 0] >= rows.start) & (partners[:, 0] < rows.stop)]
        relevant[here[:, 0] - rows.start, here[:, 1]] = True
        block = block.scatter(1, own[rows][:, None], FARTHEST)
        groups = groups_of_distances(block, relevant, cut)
        totals = relevant.sum(dim=1)
        precisions.append(average_precisions(groups, totals, RULES, cut))
        recalls.append(hits_at(groups, ns) / totals[:, None])
    means = torch.cat(recalls).mean(dim=0).tolist()
    named = {f"recall_at_{n}": mean for n, mean in zip(points, means, strict=True)}
    return {"map": float(torch.cat(precisions).mean())} | named


def _blocks(distances: Distances) -> Iterator[tuple[slice, Tensor]]:
    """All queries, some at a time, with their distances to all items."""
    step = distances.block_rows
    for start in range(0, distances.num_queries, step):
        rows = slice(start, min(start + step, distances.num_queries))
        yield rows, distances.block(rows).float()


def _check_kinds(alike: Tensor) -> None:
    if not alike.any() or alike.all():
        raise InputError(
            f"expected alike and unlike pairs, got {int(alike.sum())} alike of "
            f"{len(alike)}"
        )

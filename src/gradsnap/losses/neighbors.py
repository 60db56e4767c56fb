"""The neighbour loss: a softmax over items that should choose the nearest ones."""

import torch
from torch import Tensor

from gradsnap.losses.pairs import (
    PairLoss,
    alike_and_unlike,
    attraction,
    squared_distances,
)
from gradsnap.losses.relations import Target

STEPS, RATIO = 40, 0.8
"""Temperatures that are tried: so many, each so much smaller than the one before."""

TRIED_ROWS = 128
"""Queries they are tried on, at most."""


class NeighborLoss(PairLoss):
    """−mean of log pᵢⱼ over queries i and their neighbours j, p a softmax over items.

    pᵢⱼ ∝ exp(−‖qᵢ − xⱼ‖² / τ), with the temperature τ at which the loss of the batch is
    least: distances of any scale are served, and nothing is won by scaling them. Each
    pair counts once, or by its grade, so that a query with many neighbours in the batch
    counts more than one with few. With items as their codes it is the list-wise loss of
    what a search compares.

    Example:
        >>> embeddings = torch.tensor([[0.0], [1.0], [4.0], [5.5]])
        >>> loss = NeighborLoss()(embeddings, torch.tensor([0, 0, 1, 1]))
        >>> round(loss.item(), 4)
        0.0
    """

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """Squared distances (n, n)."""
        return squared_distances(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """Mean over alike pairs, of squared distances (n, n)."""
        alike, unlike = alike_and_unlike(labels)
        weights = attraction(labels).to(compared.dtype)
        if not compared.numel():
            return compared.sum()
        unknown = ~(alike | unlike)
        temperature = best_temperature(
            compared.masked_fill(unknown, torch.inf), weights
        )
        # Masked after the division: infinity over a temperature has no gradient.
        apart = (compared / temperature).masked_fill(unknown, torch.inf)
        return cross_entropy(apart, weights)


def cross_entropy(apart: Tensor, weights: Tensor) -> Tensor:
    """Mean over pairs of −log of a softmax of −apart (q, n), by weights (q, n).

    A pair that is infinitely far takes no part and must have no weight.
    """
    least = apart.detach().amin(dim=1, keepdim=True)
    least = least.where(least.isfinite(), 0)  # a query without items
    totals = (least - apart).exp().sum(dim=1).clamp_min(1).log()  # (q,), at least 0
    near = (apart - least).where(weights > 0, 0)
    losses = (weights * near).sum(dim=1) + weights.sum(dim=1) * totals
    total = weights.sum()
    return losses.sum() / total.where(total > 0, 1)


def best_temperature(apart: Tensor, weights: Tensor) -> Tensor:
    """The temperature at which the cross entropy of −apart (q, n) is least.

    Of ``STEPS`` that are tried, from the mean distance down, on some of the queries. It
    has the mean's gradient, so that scaling all distances changes nothing.
    """
    asking = (weights.sum(dim=1) > 0).nonzero()[:, 0]
    some = asking[:: max(1, -(-len(asking) // TRIED_ROWS))]
    apart, weights = apart[some], weights[some]
    finite = apart.isfinite()
    mean = apart.where(finite, 0).sum() / finite.sum().clamp_min(1)
    tried = mean.clamp_min(1e-30) * RATIO ** torch.arange(STEPS).to(mean)
    with torch.no_grad():
        losses = [cross_entropy(apart / one, weights) for one in tried]
    return tried[torch.stack(losses).argmin()]

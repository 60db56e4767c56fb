"""The supervised contrastive loss: a soft choice of the items that share a label."""

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.losses.pairs import (
    PairLoss,
    alike_and_unlike,
    attraction,
    squared_distances,
)
from gradsnap.losses.relations import Target


class SupervisedContrastiveLoss(PairLoss):
    """−log of the share of alike items in a softmax of −‖q − i‖²/τ, mean over queries.

    Khosla et al., "Supervised contrastive learning", NeurIPS 2020, with the mean over
    positives outside of the logarithm, on squared distances as search ranks by, instead
    of inner products of unit vectors. Unlike a margin it always pulls: the loss of easy
    data becomes small and never zero. Where relations have grades, each positive counts
    by its own: the cross entropy with the grades of a row as soft targets.

    Args:
        temperature: τ, the squared distance at which an item's weight falls by e.

    Example:
        >>> embeddings = torch.tensor([[0.0], [1.0], [4.0]])
        >>> SupervisedContrastiveLoss()(embeddings, torch.tensor([0, 0, 1]))
        tensor(0.0002)
    """

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        if not 0 < temperature < float("inf"):
            raise InputError(
                f"temperature must be positive and finite, got {temperature}"
            )
        self.temperature = temperature

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """Squared distances (n, n)."""
        return squared_distances(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """Mean over queries that have an alike item, of squared distances (n, n)."""
        same, other = alike_and_unlike(labels)
        unknown = ~(same | other)  # a row's pair with itself, at least
        logits = (-compared / self.temperature).masked_fill(unknown, -torch.inf)
        shares = logits.log_softmax(dim=1).masked_fill(unknown, 0)  # log, (n, n)
        weights = attraction(labels)
        totals = weights.sum(dim=1)
        settled = totals == 0
        losses = -(shares * weights).sum(dim=1) / totals.masked_fill(settled, 1)  # (n,)
        return losses.sum() / (~settled).sum().clamp_min(1)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"temperature={self.temperature}"

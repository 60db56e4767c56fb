"""The supervised contrastive loss: a soft choice of the items that share a label."""

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.losses.pairs import PairLoss, alike_and_unlike, squared_distances


class SupervisedContrastiveLoss(PairLoss):
    """−log of the share of alike items in a softmax of −‖q − i‖²/τ, mean over queries.

    Khosla et al., "Supervised contrastive learning", NeurIPS 2020, with the mean over
    positives outside of the logarithm, on squared distances as search ranks by, instead
    of inner products of unit vectors. Unlike a margin it always pulls: the loss of easy
    data becomes small and never zero.

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

    def loss_of_pairs(self, compared: Tensor, labels: Tensor) -> Tensor:
        """Mean over queries that have an alike item, of squared distances (n, n)."""
        same, _ = alike_and_unlike(labels)
        own = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        logits = (-compared / self.temperature).masked_fill(own, -torch.inf)
        shares = logits.log_softmax(dim=1).masked_fill(own, 0)  # log, (n, n)
        counts = same.sum(dim=1)
        losses = -(shares * same).sum(dim=1) / counts.clamp_min(1)  # (n,)
        return losses.sum() / (counts > 0).sum().clamp_min(1)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"temperature={self.temperature}"

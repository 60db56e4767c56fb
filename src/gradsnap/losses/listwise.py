"""A list-wise ranking loss: hinges weighted as NDCG weighs their two places."""

import torch
from torch import Tensor

from gradsnap.losses.hinges import Hinges, hinges
from gradsnap.losses.pairs import MarginLoss, relevance
from gradsnap.losses.relations import Target


class ListwiseLoss(MarginLoss):
    """Σ (2^rᵢ − 2^rⱼ) max(0, margin + dᵢ − dⱼ) / Z over the list each row should rank.

    The surrogate of deep semantic ranking (Zhao et al., "Deep semantic ranking based
    hashing for multi-label image retrieval", CVPR 2015; the paper's table calls it
    DSFH and list-wise): each row is a query, d its distances to the others, r how
    many labels they share with it, and the sum runs over all i, j with rᵢ > rⱼ.

    Z only makes lists comparable. It is here the sum of the list's weights instead of
    NDCG's constant, so that the loss does not grow with the batch; the result is the
    mean over queries that have anything to rank.

    Args:
        margin: how much farther than the more relevant a less relevant row should be.

    Example:
        >>> embeddings = torch.tensor([[0.0], [1.0], [4.0]])
        >>> ListwiseLoss(margin=2.5)(embeddings, torch.tensor([0, 0, 1]))
        tensor(0.2500)
    """

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over queries of distances (n, n)."""
        levels = relevance(labels)
        (weights, violated), norm = _weighted_hinges(compared, levels, self.margin)
        totals = (weights * compared).sum(dim=1) + self.margin * violated  # (n,)
        return (totals / norm.clamp_min(1)).sum() / (norm > 0).sum().clamp_min(1)


@torch.no_grad()
def _weighted_hinges(
    apart: Tensor, relevance: Tensor, margin: float
) -> tuple[Hinges, Tensor]:
    """The weighted hinges of every two levels of relevance, and their Z (n,)."""
    weights, violated = torch.zeros_like(apart), apart.new_zeros(len(apart))
    norm = torch.zeros_like(violated)
    levels = relevance[relevance >= 0].unique().tolist()
    for more in levels:
        for less in levels[: levels.index(more)]:
            near, far = relevance == more, relevance == less
            weight = 2**more - 2**less
            part = hinges(apart, near, far, margin)
            weights += weight * part.weights
            violated += weight * part.violated
            norm += weight * near.sum(dim=1) * far.sum(dim=1)
    return Hinges(weights, violated), norm

"""Losses on pairs of rows: contrastive, cosine (DQN) and logistic (DHN)."""

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.pairs import (
    MarginLoss,
    PairLoss,
    alike_and_unlike,
    cosines,
    inner_products,
    mean_over_pairs,
)
from gradsnap.losses.relations import Target


class ContrastiveLoss(MarginLoss):
    """½d² for pairs that share a label, ½max(0, margin − d)² for the others.

    Hadsell, Chopra and LeCun, "Dimensionality reduction by learning an invariant
    mapping", CVPR 2006, equation 4, with d = ‖y − y′‖; the mean over all pairs of the
    batch.

    Args:
        margin: how far apart rows that share no label should be.

    Example:
        >>> embeddings = torch.tensor([[0.0], [1.0], [4.0]])
        >>> ContrastiveLoss(margin=1.0)(embeddings, torch.tensor([0, 0, 1]))
        tensor(0.1667)
    """

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over pairs of distances (n, n)."""
        same, other = alike_and_unlike(labels)
        short = functional.relu(self.margin - compared)
        return mean_over_pairs(
            torch.where(same, compared, short).square() / 2, same | other
        )


class PairwiseCosineLoss(PairLoss):
    """(s − cos(y, y′))² over all pairs, s = 1 if they share a label and −1 if not.

    The similarity loss of DQN: Cao et al., "Deep quantization network for efficient
    image retrieval", AAAI 2016; here the mean over pairs instead of their sum.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
        >>> PairwiseCosineLoss()(embeddings, torch.tensor([0, 0, 1]))
        tensor(0.)
    """

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """Cosines (n, n)."""
        return cosines(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over pairs of cosines (n, n)."""
        same, other = alike_and_unlike(labels)
        wanted = 2 * same.to(compared.dtype) - 1
        return mean_over_pairs((wanted - compared).square(), same | other)


class PairwiseLogisticLoss(PairLoss):
    """log(1 + exp θ) − sθ over all pairs, θ = scale·⟨y, y′⟩, s = 1 or 0.

    The similarity loss of DHN: Zhu et al., "Deep hashing network for efficient
    similarity retrieval", AAAI 2016, which is the likelihood of s under a logistic
    model; here the mean over pairs, and stable for any θ.

    Args:
        scale: 1 in DHN, ½ in DPSH; less of it keeps long embeddings from saturating.

    Example:
        >>> PairwiseLogisticLoss()(torch.zeros(3, 2), torch.tensor([0, 0, 1]))
        tensor(0.6931)
    """

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise InputError(f"scale must be positive and finite, got {scale}")
        self.scale = scale

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """θ, (n, n)."""
        return self.scale * inner_products(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over pairs of θ (n, n)."""
        same, other = alike_and_unlike(labels)
        # softplus(−θ) = softplus(θ) − θ, without the difference of two large numbers
        return mean_over_pairs(
            functional.softplus(torch.where(same, -compared, compared)), same | other
        )

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"scale={self.scale}"

"""The contrastive loss of Hadsell et al. on the pairs of a batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.losses.labels import alike_and_unlike, check_batch
from gradsnap.losses.pairs import distances, mean_over_pairs
from gradsnap.losses.triplet import check_margin


class ContrastiveLoss(nn.Module):
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

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        check_margin(margin)
        self.margin = margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The scalar loss of embeddings (n, dim) and labels (n,) or (n, L) bool."""
        check_batch(embeddings, labels)
        apart = distances(embeddings)  # (n, n)
        same, _ = alike_and_unlike(labels)
        short = functional.relu(self.margin - apart)
        return mean_over_pairs(torch.where(same, apart, short).square() / 2)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"margin={self.margin}"

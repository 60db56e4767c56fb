"""The triplet loss on distances, over all triplets of a batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.errors import InputError


class TripletLoss(nn.Module):
    """max(0, margin + ‖a − p‖ − ‖a − n‖) over all triplets of a batch.

    The paper's equation 1, with its gap g as ``margin``: a and p share a label, n does
    not. The result is the mean over the triplets that are violated, so that the many
    settled ones do not dilute the gradient; zero if none is.

    Args:
        margin: how much farther than a positive a negative should be.

    Example:
        >>> embeddings = torch.tensor([[0.0], [1.0], [4.0]])
        >>> TripletLoss(margin=1.0)(embeddings, torch.tensor([0, 0, 1]))
        tensor(0.)
    """

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        if margin < 0:
            raise InputError(f"margin must be zero or more, got {margin}")
        self.margin = margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The scalar loss of embeddings (n, dim) with labels (n,)."""
        if labels.shape != embeddings.shape[:1]:
            raise InputError(
                f"expected one label for each of {len(embeddings)} embeddings, "
                f"got labels of shape {tuple(labels.shape)}"
            )
        distances = torch.cdist(embeddings, embeddings)  # (n, n)
        same = labels[:, None] == labels
        anchor, positive = (same & ~torch.eye(len(labels)).to(same)).nonzero(
            as_tuple=True
        )
        gaps = distances[anchor, positive, None] - distances[anchor]  # (pairs, n)
        hinges = functional.relu(self.margin + gaps).where(~same[anchor], 0.0)
        violated = (hinges.detach() > 0).sum()
        return hinges.sum() / violated.clamp_min(1)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"margin={self.margin}"

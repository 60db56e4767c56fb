"""The triplet loss on distances, over all triplets of a batch or over given ones."""

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.hinges import hinges
from gradsnap.losses.pairs import (
    MarginLoss,
    alike_and_unlike,
    check_batch,
    squared_distances,
)
from gradsnap.losses.relations import Target


class TripletLoss(MarginLoss):
    """max(0, margin + ‖a − p‖ − ‖a − n‖) over all triplets of a batch.

    The paper's equation 1, with its gap g as ``margin``: a and p share a label, n does
    not. The result is the mean over the triplets that are violated, so that the many
    settled ones do not dilute the gradient; zero if none is. All n³ triplets are
    counted in O(n² log n) time and O(n²) memory.

    Args:
        margin: how much farther than a positive a negative should be.

    Example:
        >>> rows, labels = torch.tensor([[0.0], [1.0], [4.0]]), torch.tensor([0, 0, 1])
        >>> TripletLoss(margin=1.0)(rows, labels), TripletLoss(margin=4.0)(rows, labels)
        (tensor(0.), tensor(1.5000))
    """

    def forward(
        self,
        embeddings: Tensor,
        labels: Target,
        triplets: tuple[Tensor, Tensor, Tensor] | None = None,
        *,
        items: Tensor | None = None,
    ) -> Tensor:
        """The scalar loss.

        Args:
            embeddings: (n, dim), the queries: what a is a row of.
            labels: integers (n,), or booleans (n, L) where rows have several labels, or
                ``Relations`` where it is pairs that are known.
            triplets: rows of a, p and n, each (t,), to take instead of all triplets.
            items: what p and n are rows of, (n, dim); the embeddings if not given.
        """
        if triplets is None:
            return super().forward(embeddings, labels, items=items)
        check_batch(embeddings, labels, items)
        _check_triplets(triplets, len(embeddings))
        apart, (a, p, n) = self.compare(embeddings, items), triplets
        gaps = functional.relu(self.margin + apart[a, p] - apart[a, n])  # (t,)
        return gaps.sum() / (gaps.detach() > 0).sum().clamp_min(1)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over the violated of all triplets, of distances (n, n)."""
        weights, violated = hinges(compared, *alike_and_unlike(labels), self.margin)
        count = violated.sum()
        total = (weights * compared).sum() + self.margin * count
        return total / count.clamp_min(1)


class SquaredTripletLoss(TripletLoss):
    """max(0, margin + ‖a − p‖² − ‖a − n‖²): the same of squared distances.

    Between bits 0 and 1 a squared distance is the Hamming distance, so that this is
    the triplet loss of deep hashing.

    Args:
        margin: how much farther than a positive a negative should be, squared.
    """

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """Squared distances (n, n)."""
        return squared_distances(queries, items)


def _check_triplets(triplets: tuple[Tensor, Tensor, Tensor], rows: int) -> None:
    shapes = [tuple(part.shape) for part in triplets]
    if len(shapes) != 3 or len(set(shapes)) != 1 or len(shapes[0]) != 1:
        raise InputError(f"expected triplets as three tensors (t,), got {shapes}")
    together = torch.stack(list(triplets))
    if together.numel() and not 0 <= together.min() <= together.max() < rows:
        raise InputError(
            f"triplets must name rows 0..{rows - 1} of the batch, "
            f"got {int(together.min())}..{int(together.max())}"
        )

"""Triplets inside a batch: all of them, the hardest, or the semi-hard."""

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.losses.pairs import alike_and_unlike, check_batch, distances
from gradsnap.losses.relations import Target
from gradsnap.triplets.triplets import Triplets


class BatchAll:
    """Every triplet of the batch.

    As many as n³ of them: ``TripletLoss`` without triplets gives the same loss without
    listing them. For losses that need the list.

    Example:
        >>> BatchAll().select(torch.zeros(3, 2), torch.tensor([0, 0, 1])).positive
        tensor([1, 0])
    """

    def select(self, embeddings: Tensor, labels: Target) -> Triplets:
        """All (a, p, n) where a and p share a label and a and n do not."""
        check_batch(embeddings, labels)
        same, different = alike_and_unlike(labels)
        anchor, positive = same.nonzero(as_tuple=True)  # (pairs,) each
        pair, negative = different[anchor].nonzero(as_tuple=True)  # (t,) each
        return Triplets(anchor[pair], positive[pair], negative)


class BatchHard:
    """For each anchor its farthest positive and its nearest negative.

    Hermans et al., "In defense of the triplet loss for person re-identification", 2017.

    Example:
        >>> y = torch.tensor([[0.0], [1.0], [2.0], [3.0], [9.0]])
        >>> BatchHard().select(y, torch.tensor([0, 0, 0, 1, 1])).negative
        tensor([3, 3, 3, 2, 2])
    """

    @torch.no_grad()
    def select(self, embeddings: Tensor, labels: Target) -> Triplets:
        """At most one triplet for each of n rows; none for rows without a pair."""
        check_batch(embeddings, labels)
        same, different = alike_and_unlike(labels)
        (anchor,) = (same.any(dim=1) & different.any(dim=1)).nonzero(as_tuple=True)
        if not len(anchor):
            return Triplets(anchor, anchor, anchor)
        apart = distances(embeddings)[anchor]  # (t, n)
        farthest = apart.masked_fill(~same[anchor], -torch.inf).argmax(dim=1)
        nearest = apart.masked_fill(~different[anchor], torch.inf).argmin(dim=1)
        return Triplets(anchor, farthest, nearest)


class SemiHard:
    """For each pair the nearest negative that is farther than the positive.

    Only negatives within the margin count, d(a, p) < d(a, n) < d(a, p) + margin, so
    each triplet is violated, none hopeless; a pair without one gives no triplet.
    Schroff et al., "FaceNet", CVPR 2015.

    Args:
        margin: that of the loss.

    Example:
        >>> y = torch.tensor([[0.0], [1.0], [1.5], [0.5]])
        >>> SemiHard(margin=1.0).select(y, torch.tensor([0, 0, 1, 1])).negative
        tensor([2, 0])
    """

    def __init__(self, margin: float = 1.0) -> None:
        if not 0 < margin < float("inf"):
            raise InputError(f"margin must be positive and finite, got {margin}")
        self.margin = margin

    @torch.no_grad()
    def select(self, embeddings: Tensor, labels: Target) -> Triplets:
        """At most one triplet for each two rows that share a label."""
        check_batch(embeddings, labels)
        same, different = alike_and_unlike(labels)
        apart = distances(embeddings)  # (n, n)
        sorted_far, order = apart.masked_fill(~different, torch.inf).sort(dim=1)
        place = torch.searchsorted(sorted_far, apart, right=True)  # first n beyond p
        place = place.clamp_max(max(len(apart) - 1, 0))
        beyond = sorted_far.gather(1, place)
        within = (beyond > apart) & (beyond < apart + self.margin)
        anchor, positive = (same & within).nonzero(as_tuple=True)
        return Triplets(anchor, positive, order.gather(1, place)[anchor, positive])

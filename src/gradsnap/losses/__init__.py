"""Losses: plain modules from embeddings and labels or relations to a scalar."""

from collections.abc import Callable

from torch import nn

from gradsnap.losses.classification import ClassificationLoss
from gradsnap.losses.listwise import ListwiseLoss
from gradsnap.losses.neighbors import NeighborLoss
from gradsnap.losses.pairs import MarginLoss, PairLoss
from gradsnap.losses.pairwise import (
    ContrastiveLoss,
    PairwiseCosineLoss,
    PairwiseLogisticLoss,
)
from gradsnap.losses.relations import Relations, Target
from gradsnap.losses.rows import RowLoss
from gradsnap.losses.supervised_contrastive import SupervisedContrastiveLoss
from gradsnap.losses.triplet import SquaredTripletLoss, TripletLoss
from gradsnap.registry import build

LOSSES: dict[str, Callable[..., nn.Module]] = {
    "triplet": TripletLoss,
    "contrastive": ContrastiveLoss,
    "cosine": PairwiseCosineLoss,
    "logistic": PairwiseLogisticLoss,
    "listwise": ListwiseLoss,
    "supcon": SupervisedContrastiveLoss,
    "neighbors": NeighborLoss,
    "classification": ClassificationLoss,
}
"""Every loss by its short name; being in here is being tested."""


def build_loss(name: str, dim: int, num_classes: int, **options: object) -> nn.Module:
    """The loss of that name; sizes go to the losses that have parameters.

    Args:
        name: a key of ``LOSSES``.
        dim: length of the embedding.
        num_classes: how many classes or labels the data has.
        options: the loss's own arguments, such as ``margin``.

    Example:
        >>> build_loss("triplet", dim=8, num_classes=3, margin=0.5)
        TripletLoss(margin=0.5)
    """
    sizes = {"dim": dim, "num_classes": num_classes}
    return build(LOSSES, name, "loss", sizes, options)


__all__ = [
    "LOSSES",
    "ClassificationLoss",
    "ContrastiveLoss",
    "ListwiseLoss",
    "MarginLoss",
    "NeighborLoss",
    "PairLoss",
    "PairwiseCosineLoss",
    "PairwiseLogisticLoss",
    "Relations",
    "RowLoss",
    "SquaredTripletLoss",
    "SupervisedContrastiveLoss",
    "Target",
    "TripletLoss",
    "build_loss",
]

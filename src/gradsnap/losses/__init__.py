"""Losses: plain modules from embeddings and labels to a scalar."""

import inspect
from collections.abc import Callable

from torch import nn

from gradsnap.errors import InputError
from gradsnap.losses.classification import ClassificationLoss
from gradsnap.losses.contrastive import ContrastiveLoss
from gradsnap.losses.listwise import ListwiseLoss
from gradsnap.losses.pairwise import PairwiseCosineLoss, PairwiseLogisticLoss
from gradsnap.losses.triplet import TripletLoss

LOSSES: dict[str, Callable[..., nn.Module]] = {
    "triplet": TripletLoss,
    "contrastive": ContrastiveLoss,
    "cosine": PairwiseCosineLoss,
    "logistic": PairwiseLogisticLoss,
    "listwise": ListwiseLoss,
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
    if name not in LOSSES:
        raise InputError(f"unknown loss {name!r}; choose one of {', '.join(LOSSES)}")
    known = inspect.signature(LOSSES[name]).parameters
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise InputError(
            f"the loss {name!r} has no option {', '.join(unknown)}; "
            f"it has {', '.join(known) or 'none'}"
        )
    sizes = {"dim": dim, "num_classes": num_classes}
    return LOSSES[name](**{k: v for k, v in sizes.items() if k in known}, **options)


__all__ = [
    "LOSSES",
    "ClassificationLoss",
    "ContrastiveLoss",
    "ListwiseLoss",
    "PairwiseCosineLoss",
    "PairwiseLogisticLoss",
    "TripletLoss",
    "build_loss",
]

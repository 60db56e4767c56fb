"""Relevance: how alike two rows are before anything is learned, from 0 up."""

from typing import Protocol

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.losses.labels import check_labels

CHUNK = 1 << 22
"""Floats held at once where features are gathered."""


class Relevance(Protocol):
    """Relevance of rows of one data set; never negative, larger is more alike."""

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """Of rows (t,) and their others (t, m), as (t, m)."""

    def total(self, members: Tensor) -> Tensor:
        """Of each of the members (m,) of a class, summed over all the others, (m,)."""


class LabelRelevance:
    """How many labels two rows share.

    Args:
        labels: integers (n,), where all of a class are equally relevant, or booleans
            (n, L), where they are graded.
    """

    def __init__(self, labels: Tensor) -> None:
        check_labels(labels, len(labels), "rows")
        self.labels = labels.detach().cpu()

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """The number of shared labels of rows (t,) and others (t, m), (t, m)."""
        mine, theirs = self.labels[rows][:, None], self.labels[others]
        if self.labels.ndim == 1:
            return (mine == theirs).float()
        both: Tensor = (mine & theirs).sum(dim=-1)
        return both.float()

    def total(self, members: Tensor) -> Tensor:
        """Shared labels of each of (m,) members with all the others, (m,)."""
        if self.labels.ndim == 1:
            inverse: Tensor = self.labels[members].unique(return_inverse=True)[1]
            return (inverse.bincount()[inverse] - 1).float()
        many_hot = self.labels[members].float()
        shared: Tensor = many_hot @ many_hot.sum(dim=0) - many_hot.sum(dim=1)
        return shared


class FeatureRelevance:
    """(1 + cosine) / 2 of given features, from 0 to 1.

    For the features of a network trained before, hand-made ones, or pixels: what makes
    one member of a class more alike than another, which labels cannot say.

    Args:
        features: (n, dim), finite; a copy of unit length is kept.
    """

    def __init__(self, features: Tensor) -> None:
        if features.ndim != 2 or not features.isfinite().all():
            raise InputError(
                f"expected finite features of shape (n, dim), "
                f"got shape {tuple(features.shape)}"
            )
        rows = features.detach().cpu().float()
        self.features = torch.nn.functional.normalize(rows, dim=1)

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """Of rows (t,) and others (t, m), (t, m), a few rows at a time."""
        step = max(CHUNK // max(others.shape[1] * self.features.shape[1], 1), 1)
        parts = [
            torch.einsum("td,tmd->tm", self.features[few], self.features[theirs])
            for few, theirs in zip(rows.split(step), others.split(step), strict=True)
        ]
        return (1 + torch.cat(parts).clamp(-1, 1)) / 2

    def total(self, members: Tensor) -> Tensor:
        """The sum over the class, from the sum of its features: O(m), not O(m²)."""
        rows = self.features[members].double()
        cosines = rows @ rows.sum(dim=0) - rows.square().sum(dim=1)
        return ((len(members) - 1 + cosines) / 2).clamp_min(0).float()

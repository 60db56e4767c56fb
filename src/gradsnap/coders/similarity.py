"""Which rows should have like codes, without a table of all pairs."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Similarity:
    """S of n rows: 1 for rows that share a label, −1 for all others.

    Rows with the same labels are alike in S, so that it is kept as one row and column
    for each different set of labels, U of them: S = Z T Zᵀ with Z one-hot.
    """

    sets: Tensor
    """Which set of labels each row has, int64 (n,)."""

    table: Tensor
    """T, float (U, U)."""

    @classmethod
    def of(cls, labels: Tensor) -> "Similarity":
        """Of labels int64 (n,), or multi-hot bool (n, L)."""
        found, sets = label_sets(labels)
        # of one label a row, a set shares with itself alone: no product is needed
        shared = found if labels.ndim == 1 else (found @ found.T > 0).float()
        return cls(sets, 2 * shared - 1)

    def sum_by_set(self, values: Tensor) -> Tensor:
        """Zᵀ values: sums over the rows of each set, (U, c), of values (n, c)."""
        total = torch.zeros(
            len(self.table), values.shape[1], dtype=values.dtype, device=values.device
        )
        return total.index_add_(0, self.sets, values)

    def times(self, values: Tensor) -> Tensor:
        """S values, (n, c), of values (n, c)."""
        return (self.table.to(values.dtype) @ self.sum_by_set(values))[self.sets]


def label_sets(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The different sets of labels, multi-hot float (U, L), and each row's, (n,)."""
    found, sets = labels.unique(dim=0, return_inverse=True)
    if labels.ndim == 1:
        return torch.eye(len(found), device=labels.device), sets
    return found.float(), sets


def many_hot(labels: Tensor) -> Tensor:
    """Labels as 0 and 1 for each class, float (n, L)."""
    if labels.ndim == 2:
        return labels.float()
    found, sets = label_sets(labels)
    return found[sets]

"""Which rows of a data set are in which class, for labels of either kind."""

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.losses.labels import check_labels

ROUNDS = 30
"""How often a negative is drawn at random before those that fit are listed."""


class Classes:
    """The members of each class; a row with several labels is in several classes.

    Args:
        labels: integers (n,), one class a row, or booleans (n, L), several labels.
    """

    def __init__(self, labels: Tensor) -> None:
        check_labels(labels, len(labels), "rows")
        self.labels = labels.detach().cpu()
        if labels.ndim == 1:
            rows = torch.arange(len(labels))
            known, owner = self.labels.unique(return_inverse=True)
            num_classes = len(known)
        else:
            rows, owner = self.labels.nonzero(as_tuple=True)
            num_classes = labels.shape[1]
        order = owner.argsort(stable=True)
        self.members = rows[order]
        """Rows, class after class, (m,)."""
        self.owner = owner[order]
        """The class of each member, (m,)."""
        self.sizes = self.owner.bincount(minlength=num_classes)
        self.starts = self.sizes.cumsum(0) - self.sizes
        self._check_triplets_exist()

    def share(self, rows: Tensor, others: Tensor) -> Tensor:
        """Whether rows and others (broadcast together) share a label."""
        if self.labels.ndim == 1:
            return self.labels[rows] == self.labels[others]
        return (self.labels[rows] & self.labels[others]).any(dim=-1)

    def unlike(self, rows: Tensor, pool: Tensor, generator: torch.Generator) -> Tensor:
        """A row of pool (m,), evenly, that shares no label, for each of rows (t,).

        −1 where the whole pool shares a label with the row.
        """
        found = torch.full_like(rows, -1)
        left = torch.arange(len(rows))
        for _ in range(ROUNDS):
            if not len(left):
                return found
            drawn = pool[torch.randint(len(pool), left.shape, generator=generator)]
            fits = ~self.share(rows[left], drawn)
            found[left[fits]] = drawn[fits]
            left = left[~fits]
        for place in left.tolist():
            fitting = pool[~self.share(rows[place], pool)]
            if len(fitting):
                drawn = torch.randint(len(fitting), (1,), generator=generator)
                found[place] = fitting[drawn]
        return found

    def _check_triplets_exist(self) -> None:
        if not (self.sizes > 1).any():
            raise InputError(
                f"no class of the {len(self.labels)} rows has two members, so there is "
                f"no positive; give labels that rows share"
            )
        if not self._has_negatives():
            raise InputError(
                f"all {len(self.labels)} rows share a label, so there is no negative; "
                f"give labels of at least two classes"
            )

    def _has_negatives(self) -> bool:
        if self.labels.ndim == 1:
            return len(self.sizes) > 1
        patterns = self.labels.unique(dim=0)
        paired = patterns[patterns[:, self.sizes > 1].any(dim=1)]
        return any(not (patterns & one).any(dim=1).all() for one in paired)

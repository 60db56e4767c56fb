"""Classes of a data set, how relevant their members are, and a reservoir of each."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.pairs import check_labels

ROUNDS = 30
"""How often a negative is drawn at random before those that fit are listed."""
CHUNK = 1 << 22
"""Floats held at once where features are gathered."""


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
        self.features = functional.normalize(rows, dim=1)

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


class Reservoirs:
    """One bounded buffer for each class.

    Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: if the
    key of a member is u^(1/weight), u uniform, the members with the largest keys are a
    sample drawn in proportion to the weights, without replacement.

    A member that passes by again gets a new key. The last key of every member is
    remembered, also of those outside the buffers: if one inside draws a small key, the
    best of the others takes its place, and the buffers stay exact over many passes.

    Args:
        sizes: how many members each class has, (classes,); members are numbered class
            after class.
        capacity: members a buffer holds at most.
    """

    def __init__(self, sizes: Tensor, capacity: int) -> None:
        self.sizes = sizes
        self.starts = sizes.cumsum(0) - sizes
        self.log_keys = torch.full((int(sizes.sum()),), -torch.inf, dtype=torch.float64)
        """Logarithm of the last key of each member, (m,); −∞ before it passes by."""
        self.slots = torch.full((len(sizes), capacity), -1)
        """The members held, (classes, capacity); −1 where a slot is free."""

    @property
    def filled(self) -> bool:
        """Whether any member ever passed by."""
        return bool((self.slots >= 0).any())

    def offer(self, classes: Tensor, members: Tensor, log_keys: Tensor) -> None:
        """Members (m,) of classes (m,) pass by, with the logarithms of their keys."""
        smallest = torch.finfo(log_keys.dtype).min  # weight 0: behind all that have any
        self.log_keys[members] = log_keys.clamp_min(smallest)
        self._fill(classes.unique())

    def _fill(self, classes: Tensor) -> None:
        """Puts the largest keys of these classes into their buffers."""
        capacity = self.slots.shape[1]
        for one in classes.tolist():
            start, size = int(self.starts[one]), int(self.sizes[one])
            keys = self.log_keys[start : start + size]
            largest, place = keys.topk(min(capacity, size))
            self.slots[one, : len(place)] = (start + place).where(
                largest.isfinite(), -1
            )

    def load_log_keys(self, log_keys: Tensor) -> None:
        """Takes over the ``log_keys`` (m,) of reservoirs of the same members."""
        if log_keys.shape != self.log_keys.shape:
            raise InputError(
                f"the state is of {len(log_keys)} members of classes, "
                f"this data set has {len(self.log_keys)}"
            )
        self.log_keys = log_keys.clone()
        self.slots.fill_(-1)
        self._fill(torch.arange(len(self.sizes)))

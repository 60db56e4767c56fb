"""What is known of the pairs of any batch, looked up in one sorted list."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gradsnap.data import Pairs, components
from gradsnap.losses import Relations

CROWD = 0.5
"""A group of more than this share of the items says nothing of its members."""

EVIDENCE = 10.0
"""Chances to be contradicted that show, if none came true, that alike is transitive."""


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """Pairs of ``count`` items by a number of their own, both ways round."""

    keys: Tensor
    """first · count + second, ascending, int64 (2m,)."""
    grades: Tensor
    """0 for unlike, above 0 for alike, float (2m,)."""
    count: int

    @classmethod
    def of(cls, items: Tensor, grades: Tensor, count: int) -> "KnownPairs":
        """Of pairs int64 (m, 2), each once, and their grades (m,)."""
        one, other = items.T
        keys = torch.cat([one * count + other, other * count + one])
        keys, order = keys.sort()
        return cls(keys, grades.repeat(2)[order], count)

    def grades_of(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Of every two items, (r, c) of numbers (r,) and (c,); −1 where unknown."""
        wanted = rows[:, None] * self.count + columns
        if not len(self.keys):
            return torch.full(wanted.shape, -1.0)
        at = torch.searchsorted(self.keys, wanted).clamp_max(len(self.keys) - 1)
        return self.grades[at].where(self.keys[at] == wanted, -1.0)


class RelationsOf(Protocol):
    """What a loss is told of a batch."""

    def of(self, indices: Tensor) -> Relations:
        """Of the items of a batch, (b,)."""
        ...


def others_of(setting: str, pairs: Pairs, count: int) -> str:
    """What pairs of ``count`` items are that are not named: unlike, unknown, inferred.

    Args:
        setting: one of these, or auto, which lets the pairs decide.
        pairs: those that train.
        count: of all items.
    """
    if setting != "auto":
        return setting
    if pairs.all_alike:
        return "unlike"
    kinds = pairs.items[pairs.alike], pairs.items[~pairs.alike]
    inferred = not pairs.graded and is_transitive(*kinds, count)
    return "inferred" if inferred else "unknown"


def relations_of(others: str, pairs: Pairs, items: Tensor, count: int) -> RelationsOf:
    """What is known of batches of training items (n,).

    Args:
        others: what pairs are that are not named; see ``others_of``.
        pairs: those that train.
        items: those that train.
        count: of all items.
    """
    alike, unlike = pairs.items[pairs.alike], pairs.items[~pairs.alike]
    if others == "inferred":
        return Connected.of_pairs(alike, unlike, count)
    known = KnownPairs.of(pairs.items, pairs.grades, count)
    if others == "unknown":
        return GivenRelations(known, pairs.graded)
    return OthersUnlike.among(known, pairs.graded, alike, items)


@dataclass(frozen=True, eq=False)
class GivenRelations:
    """Alike and unlike as given; of all other pairs nothing is known."""

    pairs: KnownPairs
    graded: bool

    def of(self, indices: Tensor) -> Relations:
        """Of the items of a batch, (b,)."""
        grades = self.pairs.grades_of(indices, indices)
        return Relations(grades > 0, grades == 0, grades if self.graded else None)


@dataclass(frozen=True, eq=False)
class OthersUnlike:
    """Alike as given; others are unlike, unless pairs connect them through a third.

    If a and b are alike, and b and c, then a and c may well be: that stays unknown.
    Where such a group holds most of the items, as with clicks, being connected means
    nothing, and only the given pairs of its members count as alike.
    """

    pairs: KnownPairs
    graded: bool
    groups: Tensor
    """The group of each item, int64 (count,); a group of its own where it has none."""

    @classmethod
    def among(
        cls, pairs: KnownPairs, graded: bool, alike: Tensor, items: Tensor
    ) -> "OthersUnlike":
        """Of the training items (n,) and their alike pairs int64 (m, 2)."""
        groups = components(alike, pairs.count)
        sizes = groups[items].bincount(minlength=pairs.count)
        crowded = sizes[groups] > CROWD * len(items)
        alone = pairs.count + torch.arange(pairs.count)
        return cls(pairs, graded, alone.where(crowded, groups))

    def of(self, indices: Tensor) -> Relations:
        """Of the items of a batch, (b,)."""
        grades = self.pairs.grades_of(indices, indices)
        alike, groups = grades > 0, self.groups[indices]
        unlike = (groups[:, None] != groups) & ~alike | (grades == 0)
        return Relations(alike, unlike, grades if self.graded else None)


@dataclass(frozen=True, eq=False)
class Connected:
    """What follows from the given pairs where alike is transitive.

    If a and b are alike, and b and c, then so are a and c; if b and c are unlike, so
    are a and c. Groups of alike items are then like classes, some of which were never
    compared with each other.
    """

    groups: Tensor
    """The group of each item, int64 (count,)."""
    unlike: KnownPairs
    """Groups of which two items were found unlike."""

    @classmethod
    def of_pairs(cls, alike: Tensor, unlike: Tensor, count: int) -> "Connected":
        """Of pairs int64 (m, 2) and (u, 2) of ``count`` items."""
        groups = components(alike, count)
        apart = groups[unlike].sort(dim=1).values.unique(dim=0)
        apart = apart[apart[:, 0] < apart[:, 1]]
        return cls(groups, KnownPairs.of(apart, torch.zeros(len(apart)), count))

    def of(self, indices: Tensor) -> Relations:
        """Of the items of a batch, (b,)."""
        groups = self.groups[indices]
        alike = groups[:, None] == groups
        unlike = self.unlike.grades_of(groups, groups) == 0
        own = torch.eye(len(indices), dtype=torch.bool)
        return Relations(alike & ~own, unlike)


def is_transitive(alike: Tensor, unlike: Tensor, count: int) -> bool:
    """Whether pairs (m, 2) and (u, 2) show that what is alike to one is alike to all.

    Were it not so, unlike pairs would fall into groups that alike pairs connect as
    often as chance has it. It counts as shown if that was to be expected ten times or
    more, and happened never.
    """
    groups = components(alike, count)
    named = torch.cat([alike, unlike]).unique()
    sizes = groups[named].bincount().double()
    within = float((sizes * (sizes - 1)).sum()) / max(len(named) * (len(named) - 1), 1)
    contradicted = bool((groups[unlike[:, 0]] == groups[unlike[:, 1]]).any())
    return not contradicted and within * len(unlike) >= EVIDENCE

"""Which items each step trains on: the same for a seed, on every process.

Batches are an endless sequence that depends on what is known of the items and on the
seed alone. A resumed run skips those it has had, so that nothing about them has to be
stored; every process goes through the same ones and takes its own rows.
"""

import itertools
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from gradsnap.errors import InputError
from gradsnap.registry import build
from gradsnap.training.processes import share
from gradsnap.triplets import SAMPLERS, Triplets


class Drawn(NamedTuple):
    """The items of one step."""

    indices: Tensor
    """Which items, int64 (b,)."""
    triplets: Triplets | None
    """Rows of the batch that form triplets, where those were drawn beforehand."""
    mine: slice | None = None
    """Which rows of the whole batch these are, where only one process knows them."""


class Batches(typing.Protocol):
    """An endless sequence of batches, the same on every pass."""

    def __iter__(self) -> Iterator[Drawn]: ...


@dataclass(frozen=True, eq=False)
class Shuffled:
    """The items in a new random order on every pass over them; all batches are full."""

    indices: Tensor
    """int64 (n,)."""
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        check_size(self.batch_size, len(self.indices))

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        full = len(self.indices) // self.batch_size
        while True:
            order = torch.randperm(len(self.indices), generator=generator)
            for places in order.split(self.batch_size)[:full]:
                yield Drawn(self.indices[places], None)


@dataclass(frozen=True, eq=False)
class Balanced:
    """A few items of each of some classes: every item has one of its class beside it.

    With many classes a shuffled batch holds few pairs of one class. Classes take turns
    in random order; a class with fewer items than asked for gives some of them twice.
    """

    indices: Tensor
    """int64 (n,)."""
    labels: Tensor
    """int64 (n,), the class of each."""
    batch_size: int
    items_per_class: int
    seed: int

    def __post_init__(self) -> None:
        check_size(self.batch_size, len(self.indices))
        if self.labels.ndim != 1:
            raise InputError("items_per_class needs one label an item, not several")
        classes = len(self.labels.unique())
        check_balance(self.batch_size, self.items_per_class, classes)

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        members = [self.indices[self.labels == one] for one in self.labels.unique()]
        at_once = self.batch_size // self.items_per_class
        while True:
            turns = torch.randperm(len(members), generator=generator).split(at_once)
            for turn in turns:
                if len(turn) == at_once:
                    parts = [self._some(members[one], generator) for one in turn]
                    yield Drawn(torch.cat(parts), None)

    def _some(self, members: Tensor, generator: Generator) -> Tensor:
        rounds = -(-self.items_per_class // len(members))
        orders = [
            torch.randperm(len(members), generator=generator) for _ in range(rounds)
        ]
        return members[torch.cat(orders)[: self.items_per_class]]


@dataclass(frozen=True, eq=False)
class DrawnTriplets:
    """Triplets drawn from the whole training part, each item embedded once."""

    indices: Tensor
    """int64 (n,)."""
    labels: Tensor
    """int64 (n,) or bool (n, L), of each."""
    batch_size: int
    """Items a batch at most: a third as many triplets."""
    seed: int
    sampler: str
    """A key of ``SAMPLERS``."""
    options: dict[str, typing.Any]

    def __post_init__(self) -> None:
        check_size(self.batch_size, len(self.indices))

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        sizes = {"labels": self.labels, "generator": generator}
        what = "choice of triplets"
        sampler = build(SAMPLERS, self.sampler, what, sizes, self.options)
        while True:
            rows, triplets = sampler.draw(max(1, self.batch_size // 3)).compact()
            yield Drawn(self.indices[rows], triplets)


@dataclass(frozen=True, eq=False)
class Partners:
    """For each of n items a list of others, all lists in one array."""

    starts: Tensor
    """Where each item's list begins in ``items``, and where all end, int64 (n + 1,)."""
    items: Tensor
    """int64 (m,)."""

    @classmethod
    def of(cls, pairs: Tensor, count: int) -> "Partners":
        """Each end of pairs int64 (m, 2) of ``count`` items is a partner of the other.

        Example:
            >>> Partners.of(torch.tensor([[0, 2], [1, 2]]), 3).items
            tensor([2, 2, 0, 1])
        """
        both = torch.cat([pairs, pairs.flip(1)])
        order = (both[:, 0] * count + both[:, 1]).argsort()
        sizes = both[:, 0].bincount(minlength=count)
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        return cls(starts, both[order, 1])

    def draw(self, anchors: Tensor, generator: Generator) -> Tensor:
        """A random partner of each of the anchors (a,) that have one, at most (a,)."""
        sizes = self.starts[anchors + 1] - self.starts[anchors]
        places = torch.rand(len(anchors), generator=generator, dtype=torch.float64)
        at = self.starts[anchors] + (places * sizes).long()
        return self.items[at[sizes > 0]]


@dataclass(frozen=True, eq=False)
class Anchored:
    """Anchors in random order, each with a partner from every one of its lists."""

    anchors: Tensor
    """int64 (n,)."""
    lists: tuple[Partners, ...]
    batch_size: int
    """Items a batch at most: who is drawn twice is there once."""
    seed: int

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        at_once = max(1, self.batch_size // (1 + len(self.lists)))
        full = max(1, len(self.anchors) // at_once)
        while True:
            order = torch.randperm(len(self.anchors), generator=generator)
            for places in order.split(at_once)[:full]:
                anchors = self.anchors[places]
                drawn = [one.draw(anchors, generator) for one in self.lists]
                yield Drawn(torch.cat([anchors, *drawn]).unique(), None)


@dataclass(frozen=True, eq=False)
class ListedTriplets:
    """Given triplets in random order, each item of a batch embedded once."""

    triplets: Tensor
    """int64 (t, 3), items as anchor, positive and negative."""
    batch_size: int
    """Items a batch at most: a third as many triplets."""
    seed: int

    def __iter__(self) -> Iterator[Drawn]:
        generator = Generator().manual_seed(self.seed)
        at_once = max(1, self.batch_size // 3)
        full = max(1, len(self.triplets) // at_once)
        while True:
            order = torch.randperm(len(self.triplets), generator=generator)
            for places in order.split(at_once)[:full]:
                rows, triplets = Triplets(*self.triplets[places].T).compact()
                yield Drawn(rows, triplets)


@dataclass(frozen=True, eq=False)
class WithoutTriplets:
    """The items of other batches, for a loss that finds pairs by itself."""

    batches: Batches

    def __iter__(self) -> Iterator[Drawn]:
        for drawn in self.batches:
            yield Drawn(drawn.indices, None)


@dataclass(frozen=True, eq=False)
class Part:
    """From a start on, the rows of each batch that one of several processes embeds."""

    batches: Batches
    start: int
    stop: int
    rank: int = 0
    world: int = 1

    def __iter__(self) -> Iterator[list[int]]:
        for drawn in itertools.islice(self.batches, self.start, self.stop):
            rows = share(len(drawn.indices), self.rank, self.world)
            yield drawn.indices[rows].tolist()

    def __len__(self) -> int:
        return self.stop - self.start


def check_balance(batch_size: int, items_per_class: int, classes: int) -> None:
    """Refuses a batch that does not hold a whole number of classes."""
    at_once, rest = divmod(batch_size, items_per_class)
    if rest or not 2 <= at_once <= classes:
        raise InputError(
            f"a batch of {batch_size} with {items_per_class} items of a class must "
            f"hold a whole number of classes from 2 to {classes}"
        )


def check_size(batch_size: int, items: int) -> None:
    """Refuses a batch that is larger than the training part."""
    if batch_size > items:
        raise InputError(
            f"run.batch_size {batch_size} is larger than the training part, "
            f"{items} items"
        )

"""Which items of its own a process adds to each batch of a source in shards.

How many rows come from which lane is drawn alike on all processes; which items those
are, by each process from the lanes it has. So the batches are the same however many
processes there are, and every process takes part in every one of them.
"""

import itertools
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from gradsnap.training.batches import Drawn, check_balance, check_size

AT_ONCE = 4096
"""Items of a shuffled list that are turned into numbers together."""


class Quota(NamedTuple):
    """Where the rows of one batch come from."""

    groups: Sequence[int]
    """Classes, or 0 for all items."""
    counts: Tensor
    """Rows of each lane and group, int64 (lanes, groups)."""


class Plan(typing.Protocol):
    """An endless sequence of quotas, the same on every process and every pass."""

    def __iter__(self) -> Iterator[Quota]: ...


def spread(sizes: Tensor, count: int, offsets: Tensor) -> Tensor:
    """Divides ``count`` rows over lanes, in proportion to their sizes.

    Args:
        sizes: items of each lane and group, (lanes, groups).
        count: rows of each group.
        offsets: from 0 to 1, (groups,); with random ones every item is drawn as often.

    Returns:
        int64 (lanes, groups), each the number in proportion, rounded up or down.

    Example:
        >>> spread(torch.tensor([[30], [10]]), 6, torch.tensor([0.25])).T
        tensor([[4, 2]])
    """
    ends = sizes.double().cumsum(0)
    ends = (ends / ends[-1] * count + offsets.double()).floor().long()
    return ends.diff(dim=0, prepend=ends.new_zeros(1, sizes.shape[1]))


@dataclass(frozen=True, eq=False)
class Proportional:
    """All items, each lane as often as its share of them."""

    sizes: Tensor
    """Training items of each lane, int64 (lanes,)."""
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        check_size(self.batch_size, int(self.sizes.sum()))

    def __iter__(self) -> Iterator[Quota]:
        generator = Generator().manual_seed(self.seed)
        while True:
            offset = torch.rand(1, generator=generator)
            yield Quota((0,), spread(self.sizes[:, None], self.batch_size, offset))


@dataclass(frozen=True, eq=False)
class PerClass:
    """A few items of each of some classes, from the lanes that have them."""

    sizes: Tensor
    """Training items of each lane and class, int64 (lanes, classes)."""
    batch_size: int
    items_per_class: int
    seed: int

    def __post_init__(self) -> None:
        check_size(self.batch_size, int(self.sizes.sum()))
        present = int(self.sizes.any(dim=0).sum())
        check_balance(self.batch_size, self.items_per_class, present)

    def __iter__(self) -> Iterator[Quota]:
        generator = Generator().manual_seed(self.seed)
        classes = self.sizes.any(dim=0).nonzero()[:, 0]
        at_once = self.batch_size // self.items_per_class
        while True:
            order = classes[torch.randperm(len(classes), generator=generator)]
            for turn in order.split(at_once):
                offsets = torch.rand(len(turn), generator=generator)
                counts = spread(self.sizes[:, turn], self.items_per_class, offsets)
                if len(turn) == at_once:
                    yield Quota(turn.tolist(), counts)


Runs = Callable[[int, int], Sequence[Tensor]]
"""The items of a lane and group that this process has, in runs that are read one after
the other; each is int64 (m,)."""


@dataclass(frozen=True, eq=False)
class LaneBatches:
    """The rows of each batch that come from this process's lanes."""

    plan: Plan
    lanes: range
    """Those of this process."""
    runs: Runs
    seed: int

    def __iter__(self) -> Iterator[Drawn]:
        streams: dict[tuple[int, int], Iterator[int]] = {}
        for groups, counts in self.plan:
            found: list[int] = []
            for lane in self.lanes:
                for place, group in enumerate(groups):
                    wanted = int(counts[lane, place])
                    if wanted and (lane, group) not in streams:
                        own = self.runs(lane, group)
                        streams[lane, group] = endless(own, (self.seed, lane, group))
                    if wanted:
                        found += itertools.islice(streams[lane, group], wanted)
            before = int(counts[: self.lanes.start].sum())
            rows = torch.tensor(found, dtype=torch.int64)
            yield Drawn(rows, None, slice(before, before + len(found)))


def endless(runs: Sequence[Tensor], seed: tuple[int, ...]) -> Iterator[int]:
    """The items of runs, a new random order of runs and of each run on every pass."""
    state = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    generator = Generator().manual_seed(int(state[0] >> np.uint64(1)))
    while True:
        for number in torch.randperm(len(runs), generator=generator).tolist():
            run = runs[number]
            for few in torch.randperm(len(run), generator=generator).split(AT_ONCE):
                yield from run[few].tolist()

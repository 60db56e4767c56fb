"""Triplets drawn from a whole data set: evenly, or the relevant more often."""

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.triplets.classes import Classes, LabelRelevance, Relevance, Reservoirs
from gradsnap.triplets.triplets import Triplets, draw_until


class UniformSampler:
    """Any anchor, any positive of one of its classes, any negative.

    Args:
        labels: of the data set: integers (n,), or booleans (n, L).
        generator: seeds the draws; one with seed 0 if not given.

    Example:
        >>> UniformSampler(torch.tensor([0, 0, 1])).draw(4).negative
        tensor([2, 2, 2, 2])
    """

    def __init__(
        self, labels: Tensor, generator: torch.Generator | None = None
    ) -> None:
        self.classes = Classes(labels)
        self.generator = generator or torch.Generator().manual_seed(0)
        paired = (self.classes.sizes > 1)[self.classes.owner]
        (self._queries,) = paired.nonzero(as_tuple=True)  # members that have a positive
        self._pool = torch.arange(len(labels))

    def draw(self, count: int) -> Triplets:
        """``count`` triplets of rows of the data set."""
        return draw_until(count, self._draw, len(self.classes.members))

    def _draw(self, count: int) -> Tensor:
        """At most ``count`` triplets, (3, t): fewer where an anchor has no negative."""
        classes, generator = self.classes, self.generator
        place = torch.randint(len(self._queries), (count,), generator=generator)
        query = self._queries[place]
        start = classes.starts[classes.owner[query]]
        size = classes.sizes[classes.owner[query]]
        step = 1 + _random_below(size - 1, generator)
        positive = classes.members[start + (query - start + step) % size]
        anchor = classes.members[query]
        negative = classes.unlike(anchor, self._pool, generator)
        return torch.stack([anchor, positive, negative])[:, negative >= 0]

    def state_dict(self) -> dict[str, Tensor]:
        """The state of the generator."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Takes up where the sampler that gave ``state`` stood."""
        self.generator.set_state(state["generator"])


class ImportanceSampler:
    """Draws relevant rows more often, from a bounded buffer for each class.

    The on-line importance sampling that the paper uses: Wang et al., "Learning
    fine-grained image similarity with deep ranking", CVPR 2014. With r(i, j) the
    relevance of two rows and R(i) = Σ r(i, j) its total over the class of i:

    * a buffer of bounded size for each class holds a reservoir of its rows, weighted
      by R: a row that passes by gets the key u^(1/R), u uniform, and the largest keys
      are kept;
    * the query is any row in the buffer of the class of the row that passes by, so
      that it was drawn in proportion to R;
    * the positive is any other row of that buffer, accepted with chance min(1, r/R):
      in proportion to r (cut off at ``threshold``) in the end;
    * the negative comes from the other buffers, evenly, or from the same buffer, drawn
      as a positive is, if it is less relevant than the positive by ``gap``.

    Rows pass by in a random order, all of them once in each pass over the data; each
    that passes by offers itself to the buffers of its classes and asks for one triplet.

    Args:
        labels: of the data set: integers (n,), or booleans (n, L).
        relevance: of its rows; by default the number of shared labels, with which
            classes of one label a row have no in-class negatives.
        capacity: rows in the buffer of a class, at least 2; more vary more and follow
            the total relevance less.
        out_of_class: the share of negatives that share no label with the anchor.
        gap: T_r, by how much an in-class negative must be less relevant.
        threshold: T_p, relevance above which a positive is not preferred any more.
        generator: seeds the draws; one with seed 0 if not given.

    Example:
        >>> labels = torch.arange(100) % 5
        >>> sampler = ImportanceSampler(labels, capacity=8)
        >>> anchor, positive, negative = sampler.draw(32)
        >>> bool((labels[anchor] == labels[positive]).all())
        True
    """

    def __init__(
        self,
        labels: Tensor,
        relevance: Relevance | None = None,
        capacity: int = 128,
        out_of_class: float = 0.8,
        gap: float = 0.1,
        threshold: float = float("inf"),
        generator: torch.Generator | None = None,
    ) -> None:
        _check_options(capacity, out_of_class, gap, threshold)
        self.classes = Classes(labels)
        self.relevance = relevance if relevance is not None else LabelRelevance(labels)
        self.capacity = capacity
        self.out_of_class = out_of_class
        self.gap = gap
        self.threshold = threshold
        self.generator = generator or torch.Generator().manual_seed(0)
        self._totals = self._total_relevance()
        self._buffers = Reservoirs(self.classes.sizes, capacity)
        self._stream = torch.empty(0, dtype=torch.int64)  # members still to pass by

    def draw(self, count: int) -> Triplets:
        """``count`` triplets of rows of the data set."""
        if not self._buffers.filled:
            self._pass_by(torch.arange(len(self.classes.members)))
        return draw_until(count, self._draw_next, len(self.classes.members))

    def state_dict(self) -> dict[str, Tensor]:
        """The generator, the rest of the pass, and the keys the buffers rest on."""
        return {
            "generator": self.generator.get_state(),
            "stream": self._stream.clone(),
            "log_keys": self._buffers.log_keys.clone(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Takes up where the sampler that gave ``state`` stood."""
        self._buffers.load_log_keys(state["log_keys"])
        self._stream = state["stream"].clone()
        self.generator.set_state(state["generator"])

    def _total_relevance(self) -> Tensor:
        """R of each member within its class, (m,)."""
        parts = self.classes.members.split(self.classes.sizes.tolist())
        return torch.cat([self.relevance.total(part) for part in parts])

    def _draw_next(self, count: int) -> Tensor:
        return self._draw(self._next_members(count))

    def _next_members(self, count: int) -> Tensor:
        """The next members to pass by, at most ``count``, having passed by."""
        if not len(self._stream):
            every = len(self.classes.members)
            self._stream = torch.randperm(every, generator=self.generator)
        members, self._stream = self._stream[:count], self._stream[count:]
        self._pass_by(members)
        return members

    def _pass_by(self, members: Tensor) -> None:
        uniform = torch.rand(
            members.shape, generator=self.generator, dtype=torch.float64
        )
        log_keys = uniform.log() / self._totals[members]  # of u^(1/R)
        self._buffers.offer(self.classes.owner[members], members, log_keys)

    def _draw(self, members: Tensor) -> Tensor:
        """At most one triplet for the class of each member, (3, t)."""
        buffers = self._buffers.slots[self.classes.owner[members]]  # (t, capacity)
        buffers = buffers[(buffers >= 0).sum(dim=1) > 1]
        rows = self.classes.members[buffers]
        anchor = _pick(rows, _one_of((buffers >= 0).double(), self.generator))
        relevance = self.relevance.between(anchor, rows).double()
        chances = self._chances(relevance, buffers).where(rows != anchor[:, None], 0)
        chosen = _one_of(chances, self.generator)
        limit = relevance.gather(1, chosen.clamp_min(0)[:, None]) - self.gap  # (t, 1)
        inside = _one_of(chances.where(relevance <= limit, 0), self.generator)
        negative = self._negatives(anchor, _pick(rows, inside))
        triplets = torch.stack([anchor, _pick(rows, chosen), negative])
        return triplets[:, (triplets >= 0).all(dim=0)]

    def _chances(self, relevance: Tensor, buffers: Tensor) -> Tensor:
        """min(1, r/R) of the members in buffers (t, capacity); 0 in free slots."""
        share = relevance.clamp_max(self.threshold) / self._totals[buffers]
        return share.clamp_max(1).nan_to_num(0).where(buffers >= 0, 0)

    def _negatives(self, anchor: Tensor, inside: Tensor) -> Tensor:
        """In-class where asked for and there is one, else from the other buffers."""
        outside = self.classes.unlike(anchor, self._pool(), self.generator)
        asked = torch.rand(anchor.shape, generator=self.generator) >= self.out_of_class
        return inside.where(asked & (inside >= 0), outside)

    def _pool(self) -> Tensor:
        """The rows in all the buffers."""
        slots = self._buffers.slots
        return self.classes.members[slots[slots >= 0]]


def _random_below(limits: Tensor, generator: torch.Generator) -> Tensor:
    """An integer 0 … limit − 1 for each limit (t,), evenly."""
    uniform = torch.rand(limits.shape, generator=generator, dtype=torch.float64)
    return (uniform * limits).long()


def _one_of(chances: Tensor, generator: torch.Generator) -> Tensor:
    """A column of each row (t, m) in proportion to its chances, (t,); −1 if all are 0.

    The same as drawing evenly and accepting with the chance until one is accepted.
    """
    possible = (chances > 0).any(dim=1, keepdim=True)
    column = chances.where(possible, 1).multinomial(1, generator=generator)
    return column.where(possible, -1)[:, 0]


def _pick(rows: Tensor, column: Tensor) -> Tensor:
    """The entry of each row (t, m) in its column (t,), (t,); −1 where that is −1."""
    entry = rows.gather(1, column.clamp_min(0)[:, None])[:, 0]
    return entry.where(column >= 0, -1)


def _check_options(
    capacity: int, out_of_class: float, gap: float, threshold: float
) -> None:
    if capacity < 2:
        raise InputError(f"capacity must be at least 2, got {capacity}")
    if not 0 <= out_of_class <= 1:
        raise InputError(f"out_of_class must lie in 0..1, got {out_of_class}")
    if not gap > 0:
        raise InputError(f"gap must be positive, got {gap}")
    if not threshold > 0:
        raise InputError(f"threshold must be positive, got {threshold}")

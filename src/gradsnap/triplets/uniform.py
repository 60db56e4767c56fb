"""Triplets drawn evenly from a data set."""

import torch
from torch import Tensor

from gradsnap.triplets.classes import Classes
from gradsnap.triplets.types import Triplets, drawn_until


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
        return drawn_until(count, self._draw, len(self.classes.members))

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


def _random_below(limits: Tensor, generator: torch.Generator) -> Tensor:
    """An integer 0 … limit − 1 for each limit (t,), evenly."""
    uniform = torch.rand(limits.shape, generator=generator, dtype=torch.float64)
    return (uniform * limits).long()

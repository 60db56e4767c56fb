"""Rate, strength and neighbors as functions of the step alone: nothing to store."""

import math
from dataclasses import dataclass

from gradsnap.training.config import OptimizerSettings, SnappingSettings


@dataclass(frozen=True)
class RateSchedule:
    """What the learning rates are multiplied by.

    Example:
        >>> schedule = RateSchedule(OptimizerSettings(schedule="cosine"), steps=100)
        >>> [round(schedule(step), 3) for step in (0, 50, 100)]
        [1.0, 0.5, 0.0]
    """

    settings: OptimizerSettings
    steps: int

    def __call__(self, step: int) -> float:
        """The factor at a step, 0 to 1."""
        share = step / self.steps
        if self.settings.schedule == "cosine":
            return (1 + math.cos(math.pi * min(share, 1))) / 2
        if self.settings.schedule == "step":
            return 0.1 ** sum(share >= milestone for milestone in self._milestones)
        return 1.0

    @property
    def _milestones(self) -> tuple[float, ...]:
        return self.settings.milestones


@dataclass(frozen=True)
class SnappingSchedule:
    """When the codebooks are fitted, and how strong snapping is from then on.

    Codewords lie inside the hull of the embeddings, so that snapping from the first
    step contracts them and can stall a margin loss on a fresh head: first a warm-up.

    Example:
        >>> settings = SnappingSettings(strength=0.3, warmup=0.2, ramp=0.4)
        >>> schedule = SnappingSchedule(settings, steps=100)
        >>> schedule.fit_step, [round(schedule.strength(s), 2) for s in (20, 40, 60)]
        (20, [1.0, 0.65, 0.3])
    """

    settings: SnappingSettings
    steps: int

    @property
    def fit_step(self) -> int:
        """The step before which the codebooks are fitted."""
        return round(self.settings.warmup * self.steps)

    def strength(self, step: int) -> float:
        """λ at a step."""
        return self._between(self.settings.first_strength, self.settings.strength, step)

    def neighbors(self, step: int) -> int:
        """How many candidates a row has at a step."""
        last = self.settings.neighbors
        first = self.settings.first_neighbors or last
        return round(self._between(first, last, step))

    def _between(self, first: float, last: float, step: int) -> float:
        length = self.settings.ramp * self.steps
        done = 1.0 if length == 0 else min(1.0, (step - self.fit_step) / length)
        return first + (last - first) * max(0.0, done)

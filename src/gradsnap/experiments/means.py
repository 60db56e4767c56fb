"""Means over seeds, with their standard errors."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple


class Mean(NamedTuple):
    """A mean over seeds."""

    value: float
    error: float
    """Standard error; NaN for a single seed."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of one value a seed.

        >>> Mean.of([1.0, 2.0, 3.0])
        Mean(value=2.0, error=0.5773502691896258)
        """
        many = len(values) > 1
        error = stdev(values) / math.sqrt(len(values)) if many else math.nan
        return cls(fmean(values), error)

    @classmethod
    def of_gain(cls, values: Sequence[float], before: Sequence[float]) -> "Mean":
        """Of the differences, seed by seed: the splits are the same."""
        return cls.of([a - b for a, b in zip(values, before, strict=True)])

    @property
    def errors(self) -> float:
        """How many standard errors it is away from zero."""
        return (
            self.value / self.error
            if self.error
            else math.copysign(math.inf, self.value)
        )

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}".replace("-", "−")

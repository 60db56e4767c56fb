"""A line of the study: means over seeds, their standard errors, paired differences."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from benchmarks.report import Record
from benchmarks.study_cells import Choice, Layout, Method
from benchmarks.study_runs import Outcome


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


@dataclass(frozen=True)
class StudyRow:
    """One method in one cell, a figure for each seed."""

    data: str
    layout: str
    bits: int
    method: str
    rate: float
    strength: float | None
    code_maps: list[float]
    float_maps: list[float]
    precisions: list[float]
    float_precisions: list[float]
    fitted_to: dict[str, int]
    """How often the validation part chose each source of the codebooks."""
    seconds: float
    """Of its runs with this choice."""

    @property
    def met(self) -> bool | None:
        """A study has no bar."""
        return None

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        strength = "" if self.strength is None else f"{self.strength:g}"
        return {
            "what": f"{self.data}, {self.layout}",
            "bits": str(self.bits),
            "method": self.method,
            "rate": f"{self.rate:g}",
            "strength": strength,
            "code MAP": str(Mean.of(self.code_maps)),
            "float MAP": str(Mean.of(self.float_maps)),
            "precision@10": str(Mean.of(self.precisions)),
        }

    def record(self) -> Record:
        """What is written to the JSON file."""
        return asdict(self)


CellRows = dict[str, StudyRow]
"""The rows of one cell, by method."""


def row_of(
    data: str, layout: Layout, method: Method, choice: Choice, runs: list[Outcome]
) -> StudyRow:
    """The row of a method's runs, one a seed."""
    return StudyRow(
        data=data,
        layout=str(layout),
        bits=layout.bits,
        method=method.name,
        rate=choice.rate,
        strength=choice.strength,
        code_maps=[run.code_map for run in runs],
        float_maps=[run.float_map for run in runs],
        precisions=[run.precision for run in runs],
        float_precisions=[run.float_precision for run in runs],
        fitted_to=dict(Counter(run.fitted_to for run in runs)),
        seconds=sum(run.seconds for run in runs),
    )

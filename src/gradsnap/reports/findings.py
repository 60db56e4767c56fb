"""Figures over seeds, and what may be said of them: what was measured, and no more."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

REPEATS = 5

Records = Sequence[Mapping[str, Any]]
"""What one run logged, in order of its steps."""


class Range(NamedTuple):
    """A figure over seeds."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Range":
        """The range of some values."""
        kept = list(values)
        return cls(fmean(kept), min(kept), max(kept))

    def overlaps(self, other: "Range") -> bool:
        """Whether some seed of one lies within the seeds of the other."""
        return self.least <= other.most and other.least <= self.most


class Contrast(NamedTuple):
    """Two sides that were run with the same seeds.

    A difference is only stated where the seeds of the two do not overlap.
    """

    before: str
    """What the first side is called, such as "without snapping"."""
    after: str
    seeds: int

    def sentence(
        self, what: str, before: Range, after: Range, say: Callable[[float, float], str]
    ) -> str:
        """One figure of both sides, and what the difference means if there is one.

        Args:
            what: the figure's name.
            before: of the first side.
            after: of the second side.
            say: words for the two means, such as "codes rank better".
        """
        means = f"{before.mean:.3f} {self.before}, {after.mean:.3f} {self.after}"
        if self.seeds == 1 or before.overlaps(after):
            return f"{what}: {means}. {self.undecided()}"
        told = say(before.mean, after.mean)
        return f"{what}: {means}: {told} {self.after}."

    def on_bits(self, before: dict[int, Range], after: dict[int, Range]) -> str:
        """At which bits every seed of one side ranks better than all of the other."""
        if self.seeds == 1:
            return self.undecided()
        apart = [bits for bits in before if not before[bits].overlaps(after[bits])]
        ahead = [bits for bits in apart if after[bits].mean > before[bits].mean]
        behind = [bits for bits in apart if bits not in ahead]
        said = [
            f"At {', '.join(map(str, some))} bits every seed {better} ranks better "
            f"than every seed {worse}."
            for some, better, worse in (
                (ahead, self.after, self.before),
                (behind, self.before, self.after),
            )
            if some
        ]
        rest = "At the other lengths" if said else "At every length"
        if len(apart) < len(before):
            said.append(
                f"{rest} the seeds {self.before} and {self.after} overlap and do not "
                "tell the two apart."
            )
        return " ".join(said)

    def undecided(self) -> str:
        """That the figures do not tell the sides apart."""
        if self.seeds == 1:
            return "One seed cannot tell a difference from chance."
        return (
            f"The {self.seeds} seeds of both sides overlap and do not tell them apart."
        )


def mean_curve(runs: Sequence[Records], key: str) -> list[tuple[float, float]]:
    """Steps and the mean of a logged figure over runs that logged at equal steps.

    Args:
        runs: the records of each, which have their ``step``.
        key: of the figure; records without it are passed over.
    """
    curves = [
        {record["step"]: record[key] for record in records if key in record}
        for records in runs
    ]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [(step, fmean(curve[step] for curve in curves)) for step in steps]


def added_up(runs: Sequence[Records], key: str) -> list[int]:
    """A logged histogram, summed over all records of all runs; empty if none has it.

    >>> added_up([[{"counts": [1, 2]}, {"step": 5}], [{"counts": [0, 4]}]], "counts")
    [1, 6]
    """
    histograms = [one[key] for records in runs for one in records if key in one]
    return [sum(column) for column in zip(*histograms, strict=True)]


def milliseconds_a_query(search: Callable[[], object], queries: int) -> float:
    """Of the fastest of a few searches for all queries at once."""
    search()  # what is built once does not count
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        search()
        times.append(time.perf_counter() - started)
    return min(times) / queries * 1000

"""Figures 3b and 3c: snapping with one setting moved, at several lengths of code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.contenders import Choice, Contender, trained_contenders
from gradsnap.experiments.jobs import Job, Work
from gradsnap.experiments.paper import figures as paper
from gradsnap.experiments.plan import Plan, Request
from gradsnap.experiments.results import Axes, Cell
from gradsnap.experiments.rows import CHOICES, about_of, record_of

LENGTHS = (4, 8, paper.BITS)
"""The paper's 32 bits, where codes are plenty, and two where they are scarce."""
QUICK_LENGTHS = (4,)
KEPT = ("coder.refit=none", f"layer.options.neighbors={paper.NEIGHBORS}")
"""Codes are of the codebooks that training left: a fit afterwards would hide them."""


@dataclass(frozen=True)
class Sweep:
    """One setting of snapping with product codes, moved.

    Args:
        key: the setting.
        values: in order; the first is the paper's, where rate and strength are chosen.
        axis: what the setting is.
        most: the largest value that codes of so many bits can have.
    """

    key: str
    values: tuple[int, ...]
    axis: str
    most: Callable[[int], int] = field(default=lambda bits: 2**62)

    def plan(self, bench: Bench, request: Request) -> Plan:
        """A curve for each length."""
        lengths = request.bits or (QUICK_LENGTHS if bench.quick else LENGTHS)
        jobs = [job for bits in lengths for job in self._jobs(bench, bits)]
        told = bench.source.stand_in("cifar10")
        return Plan(
            jobs,
            Axes(self.axis, "MAP of codes", doubling=True),
            bench.card(method="snapping, product codes", fixed=" ".join(KEPT)),
            CHOICES
            + f"They are chosen at each length with {self.key}={self.values[0]}.",
            [*paper.NOTES, *([told] if told else [])],
        )

    def _jobs(self, bench: Bench, bits: int) -> list[Job]:
        values = self._values(bench, bits)
        line = _Line(self, bench, bits, values[0])
        trials = bench.limited(line.contender(values[0])).trials
        return [
            Job(
                f"{bits} bits, {self.key}={value}",
                bench.seeds + (trials if value == values[0] else 0),
                lambda value=value: line.work(value),  # type: ignore[misc]
                lambda why, value=value: [line.cell(value, (), {"error": why})],  # type: ignore[misc]
            )
            for value in values
        ]

    def _values(self, bench: Bench, bits: int) -> list[int]:
        """Those that these codes can have."""
        most = self.most(bits)
        known = dict.fromkeys(min(value, most) for value in self.values)
        return list(known)[:: 3 if bench.quick else 1]


@dataclass(frozen=True)
class _Line:
    """One curve."""

    sweep: Sweep
    bench: Bench
    bits: int
    first: int
    chosen: list[Choice] = field(default_factory=list)

    def contender(self, value: int) -> Contender:
        own = trained_contenders(self.bench.trunk.rates)["snapping"]
        settings = (*own.settings, *KEPT, f"{self.sweep.key}={value}")
        return replace(own, settings=settings)

    def work(self, value: int) -> Work:
        if not self.chosen:
            first = self.contender(self.first)
            self.chosen.append((yield from self.bench.choose(first, self.bits)))
        choice, own = self.chosen[0], self.contender(value)
        runs = yield from self.bench.over_seeds(own, choice, self.bits)
        figures = [record_of(run, choice, own) for run in runs]
        maps = tuple(run.code_map for run in runs)
        return [self.cell(value, maps, about_of(figures))]

    def cell(self, value: int, maps: Sequence[float], about: dict[str, object]) -> Cell:
        row = f"snapping, {self.bits} bits"
        return Cell(row, f"{value}", tuple(maps), value, "Ours", "", about)

"""The runs of one row at several lengths of code."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.cache import Record
from gradsnap.experiments.contenders import Choice, Contender, coder_of
from gradsnap.experiments.jobs import Job, Work
from gradsnap.experiments.paper.systems import system_of
from gradsnap.experiments.results import Cell
from gradsnap.experiments.runs import Measures, Outcome
from gradsnap.experiments.shallow import shallow_over_seeds

SHORT = 8
"""Up to so many bits codes are scarce, and rates and strengths are chosen apart."""
USUAL = 32

CHOICES = (
    "Rate and strength of every trained row are those whose codes rank best on the "
    "validation part of seed 0, never on the queries: over the rates at the "
    "likeliest strength, from the middle one in steps while the figure rises, then "
    "over the strengths at the best rate. "
)

Cells = Callable[[str, int, Sequence[Record]], list[Cell]]
"""The cells of a row at a length, from the figures of its seeds."""


def chosen_at(bits: int, lengths: Sequence[int]) -> int:
    """The length at which rate and strength are chosen for codes of ``bits``.

    Example:
        >>> [chosen_at(bits, (4, 8, 12, 24, 32, 48)) for bits in (4, 8, 12, 48)]
        [8, 8, 32, 32]
        >>> chosen_at(48, (24, 48))
        24
    """
    short = [one for one in lengths if one <= SHORT]
    if bits <= SHORT:
        return max(short)
    long = sorted(one for one in lengths if one > SHORT)
    return min(long, key=lambda one: abs(one - USUAL) + (one > USUAL) / 2)


@dataclass(frozen=True)
class Row:
    """A row of a table: a contender, or a coder on fixed vectors.

    Args:
        bench: what all share.
        name: of the row.
        contender: None for a coder on fixed vectors.
        lengths: of code, in bits.
        cells: makes cells of figures.
        measures: of the rankings.
        chosen_among: lengths that rate and strength may be chosen at, where these are
            not the row's own: those of a table whose runs the row shares.
    """

    bench: Bench
    name: str
    contender: Contender | None
    lengths: Sequence[int]
    cells: Cells
    measures: Measures = field(default_factory=Measures)
    chosen_among: Sequence[int] = ()
    _chosen: dict[int, Choice] = field(default_factory=dict, init=False)

    def jobs(self) -> list[Job]:
        """A job for each length; the choices are made in the first that needs them."""
        return [
            Job(
                name=f"{self.name}, {bits} bits",
                runs=self._runs(bits, place),
                work=lambda bits=bits: self._work(bits),  # type: ignore[misc]
                failed=lambda why, bits=bits: self._failed(bits, why),  # type: ignore[misc]
            )
            for place, bits in enumerate(self.lengths)
        ]

    def _runs(self, bits: int, place: int) -> int:
        before = [self._chosen_at(one) for one in self.lengths[:place]]
        chooses = self.contender is not None and self._chosen_at(bits) not in before
        trials = self.bench.limited(self.contender).trials if self.contender else 0
        return self.bench.seeds + (trials if chooses else 0)

    def _work(self, bits: int) -> Work:
        if self.contender is None:
            kind = coder_of(self.name) or ""
            files = [self.bench.fixed] * self.bench.seeds
            found = yield from shallow_over_seeds(
                self.bench, files, kind, bits, self.measures
            )
            return self.cells(self.name, bits, found)
        choice = yield from self._choice(self.contender, bits)
        runs = yield from self.bench.over_seeds(
            self.contender, choice, bits, self.measures
        )
        figures = [record_of(run, choice, self.contender) for run in runs]
        return self.cells(self.name, bits, figures)

    def _choice(self, contender: Contender, bits: int) -> Generator[str, None, Choice]:
        at = self._chosen_at(bits)
        if at not in self._chosen:
            told = self.bench.choose(contender, at, self.measures)
            self._chosen[at] = yield from told
        return self._chosen[at]

    def _chosen_at(self, bits: int) -> int:
        return chosen_at(bits, self.chosen_among or self.lengths)

    def _failed(self, bits: int, why: str) -> list[Cell]:
        cells = self.cells(self.name, bits, [])
        return [
            Cell(c.row, c.column, (), c.x, c.system, c.published, {"error": why})
            for c in cells
        ]


def record_of(run: Outcome, choice: Choice, contender: Contender) -> Record:
    """The figures of a trained run, as plain values."""
    own = {name: getattr(run, name) for name in SHOWN}
    at_end = choice.rate in (contender.rates[0], contender.rates[-1])
    return own | choice._asdict() | {"rate_at_end": at_end}


SHOWN = (
    "code_map",
    "float_map",
    "validation_map",
    "fitted_to",
    "points",
    "precisions",
    "seconds",
)


def map_cells(published: Callable[[str, int], str]) -> Cells:
    """One cell a length: MAP of codes beside the paper's figure.

    Args:
        published: the paper's figure of one of its systems at a length.
    """

    def cells(row: str, bits: int, figures: Sequence[Record]) -> list[Cell]:
        system = system_of(row)
        return [
            Cell(
                row=row,
                column=f"{bits} bits",
                values=tuple(one["code_map"] for one in figures),
                x=bits,
                system=system,
                published=published(system, bits),
                about=about_of(figures),
            )
        ]

    return cells


CHOSEN = ("rate", "rate_at_end", "strength")


def about_of(figures: Sequence[Record]) -> Record:
    """What else is known of a cell: what was chosen, and the seeds' other figures."""
    if not figures:
        return {}
    first = figures[0]
    shared: Record = {name: first[name] for name in CHOSEN if name in first}
    each: Record = {
        name: [one[name] for one in figures]
        for name in ("float_map", "validation_map", "fitted_to", "seconds")
        if name in first
    }
    return shared | each

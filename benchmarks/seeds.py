"""Ten seeds where three do not tell whether the recipe gains: kept beside plain + PQ.

The cells of the study in which plain codes lose .02 or more to floats and three seeds
leave open whether what `gradsnap train` keeps is above them. Rates and strengths are
those of the study; ``docs/study.md`` has the table, between its marks.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks import report
from benchmarks.study import FOLDER, Cell, opened
from benchmarks.study_cells import KEPT, METHODS, PLAIN
from benchmarks.study_page import put_table
from benchmarks.study_rows import StudyRow, kept_row, row_of
from benchmarks.vectors import Setting
from gradsnap.experiments.cache import RunCache
from gradsnap.experiments.contenders import Choice
from gradsnap.experiments.layouts import Layout
from gradsnap.experiments.means import Mean
from gradsnap.experiments.runs import Outcome, outcome

SEEDS = 10
SURE = 2.26
"""Standard errors that ten seeds need: 5 % of Student's t, two-sided."""

CELLS = (
    ("mnist", Layout(2, 4)),
    ("mnist", Layout(1, 16)),
    ("voc, several labels", Layout(2, 4)),
    ("voc, several labels", Layout(2, 16)),
)


@dataclass(frozen=True)
class Gain:
    """What is kept beside plain + PQ in one cell, a figure for each seed."""

    data: str
    layout: str
    plain: list[float]
    kept: list[float]
    floats: list[float]
    """Of the plain network."""
    kept_from: dict[str, int]

    @property
    def met(self) -> bool | None:
        """Whether it gains surely."""
        return Mean.of_gain(self.kept, self.plain).errors > SURE

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        gain = Mean.of_gain(self.kept, self.plain)
        names = ", ".join(f"{name} {n}" for name, n in self.kept_from.items())
        return {
            "data": f"{self.data}, {self.layout}",
            "floats, plain": str(Mean.of(self.floats)),
            PLAIN: str(Mean.of(self.plain)),
            KEPT: str(Mean.of(self.kept)),
            "above": f"**{gain}**" if self.met else str(gain),
            "standard errors": f"{gain.errors:.1f}",
            "kept": names,
        }

    def record(self) -> report.Record:
        """What is written to the JSON file."""
        return asdict(self) | {"what": f"{self.data}, {self.layout}", "met": self.met}


def run(setting: Setting) -> Iterator[Gain | report.Row]:
    """Every cell; the table of the page after each."""
    gains: list[Gain] = []
    for cell in opened(CELLS, setting):
        if isinstance(cell, report.Row):
            yield cell
            continue
        gains.append(_gain(cell, 2 if setting.quick else SEEDS))
        yield gains[-1]
        if not setting.quick:
            put_table("seeds", [gain.cells() for gain in gains])


def _gain(cell: Cell, seeds: int) -> Gain:
    known = cell.known()
    names = {PLAIN, *cell.task.recipes(cell.layout)}
    rows = {name: _with_seeds(cell, known[name], seeds) for name in names}
    own = [rows[name] for name in cell.task.recipes(cell.layout)]
    kept = kept_row(KEPT, own)
    if kept is None:
        raise RuntimeError("every run says how it did on the validation part")
    plain = rows[PLAIN]
    return Gain(
        data=plain.data,
        layout=plain.layout,
        plain=plain.code_maps,
        kept=kept.code_maps,
        floats=plain.float_maps,
        kept_from=kept.fitted_to,
    )


def _with_seeds(cell: Cell, row: StudyRow, seeds: int) -> StudyRow:
    """The row with other seeds."""
    runs = [_outcome(cell, row, seed) for seed in range(seeds)]
    method = next(one for one in METHODS if one.name == row.method)
    choice = Choice(row.rate, row.strength)
    return row_of("", row.data, cell.layout, method, choice, runs)


def _outcome(cell: Cell, row: StudyRow, seed: int) -> Outcome:
    found = outcome(cell.as_chosen(row, seed), RunCache(FOLDER / "runs"))
    what = f"{row.data}, {row.layout}, {row.method}, seed {seed}"
    report.say(f"{what}: {found.code_map:.3f} ({found.seconds:.1f} s)")
    return found

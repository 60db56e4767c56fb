"""More seeds where three leave a question open: what is kept, beside one other method.

Two questions of the study. Is what `gradsnap train` keeps surely above plain + PQ where
plain codes lose .02 or more to floats? And is it below the best of the others where
three seeds say so? That best one was picked by its figures, which are kinder to it than
new seeds are. Rates and strengths are those of the study; ``docs/study.md`` has the
table, between its marks. A case that ``results/seeds.json`` has is not run again.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

from benchmarks import report
from benchmarks.study import Cell, opened
from benchmarks.study_cells import KEPT, METHODS, PLAIN, SNAPPED
from benchmarks.study_page import put_table
from benchmarks.study_rows import StudyRow, kept_row, row_of
from benchmarks.vectors import Setting
from gradsnap.evaluation import spread
from gradsnap.experiments.contenders import Choice
from gradsnap.experiments.layouts import Layout
from gradsnap.experiments.means import Mean
from gradsnap.experiments.runs import Outcome

RESULTS = report.RESULTS / "seeds.json"


class Case(NamedTuple):
    """A cell of the study, and what the kept codes are compared with in it."""

    data: str
    layout: Layout
    beside: str
    seeds: int


CASES = (
    Case("mnist", Layout(2, 4), PLAIN, 10),
    Case("mnist", Layout(1, 16), PLAIN, 10),
    Case("voc, several labels", Layout(2, 4), PLAIN, 10),
    Case("voc, several labels", Layout(2, 16), PLAIN, 20),
    Case(
        "voc, several labels", Layout(2, 16), "snapping through codes, mixed, OPQ", 20
    ),
    Case("digits", Layout(1, 16), SNAPPED, 40),
    Case("tiny-imagenet, unseen classes", Layout(2, 256), "plain + OPQ", 20),
)


@dataclass(frozen=True)
class Gain:
    """What is kept beside another method in one cell, a figure for each seed."""

    data: str
    layout: str
    beside: str
    theirs: list[float]
    kept: list[float]
    floats: list[float]
    """Of the other method's network."""
    kept_from: dict[str, int]

    @property
    def sure(self) -> bool:
        """Whether it gains by more than chance: 5 % of Student's t, two-sided."""
        differences = [a - b for a, b in zip(self.kept, self.theirs, strict=True)]
        return spread(differences).interval.low > 0

    @property
    def met(self) -> bool | None:
        """Surely above plain + PQ, and within one standard error of any other."""
        near = Mean.of_gain(self.kept, self.theirs).errors >= -1
        return self.sure if self.beside == PLAIN else near

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        gain = Mean.of_gain(self.kept, self.theirs)
        names = ", ".join(f"{name} {n}" for name, n in self.kept_from.items())
        return {
            "data": f"{self.data}, {self.layout}",
            "seeds": str(len(self.kept)),
            "beside": self.beside,
            "its floats": str(Mean.of(self.floats)),
            "its codes": str(Mean.of(self.theirs)),
            KEPT: str(Mean.of(self.kept)),
            "above": f"**{gain}**" if self.sure else str(gain),
            "standard errors": f"{gain.errors:.1f}".replace("-", "−"),
            "kept": names,
        }

    def record(self) -> report.Record:
        """What is written to the JSON file."""
        return asdict(self) | {"what": f"{self.data}, {self.layout}", "met": self.met}


def run(setting: Setting) -> Iterator[Gain | report.Row]:
    """Every case; the table of the page after each."""
    gains: list[Gain] = []
    known = {} if setting.quick else _known()
    cases = CASES[:1] if setting.quick else CASES
    for case in cases:
        (cell,) = opened([(case.data, case.layout)], setting)
        if isinstance(cell, report.Row):
            yield cell
            continue
        key = case.data, str(case.layout), case.beside, case.seeds
        seeds = 2 if setting.quick else case.seeds
        gains.append(known.get(key) or _gain(cell, case.beside, seeds))
        yield gains[-1]
        if not setting.quick:
            put_table("seeds", [gain.cells() for gain in gains])


def _known() -> dict[tuple[str, str, str, int], Gain]:
    """The last results, by case."""
    if not RESULTS.is_file():
        return {}
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    names = Gain.__dataclass_fields__
    gains = [Gain(**{name: row[name] for name in names}) for row in rows]
    return {(one.data, one.layout, one.beside, len(one.kept)): one for one in gains}


def _gain(cell: Cell, beside: str, seeds: int) -> Gain:
    known = cell.known()
    recipes = cell.task.recipes(cell.layout)
    names = {beside, *recipes}
    rows = {name: _with_seeds(cell, known[name], seeds) for name in names}
    kept = kept_row(KEPT, [rows[name] for name in recipes])
    if kept is None:
        raise RuntimeError("every run says how it did on the validation part")
    other = rows[beside]
    return Gain(
        data=other.data,
        layout=other.layout,
        beside=beside,
        theirs=other.code_maps,
        kept=kept.code_maps,
        floats=other.float_maps,
        kept_from=kept.fitted_to,
    )


def _with_seeds(cell: Cell, row: StudyRow, seeds: int) -> StudyRow:
    """The row with other seeds."""
    runs = [_outcome(cell, row, seed) for seed in range(seeds)]
    method = next(one for one in METHODS if one.name == row.method)
    choice = Choice(row.rate, row.strength)
    return row_of("", row.data, cell.layout, method, choice, runs)


def _outcome(cell: Cell, row: StudyRow, seed: int) -> Outcome:
    found = cell.finished(cell.as_chosen(row, seed))
    what = f"{row.data}, {row.layout}, {row.method}, seed {seed}"
    report.say(f"{what}: {found.code_map:.3f} ({found.seconds:.1f} s)")
    return found

"""The study at other lengths of the embedding: 32, 64, 128 and 192 dimensions.

The recipe of `gradsnap train` beside plain + PQ, each with the rate and strength that
the study chose for the cell at its own length; three seeds. ``docs/study.md`` has the
table, between its marks; finished runs are kept.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import fmean

from benchmarks import report
from benchmarks.study import SEEDS, Cell, opened
from benchmarks.study_cells import PLAIN
from benchmarks.study_page import put_table
from benchmarks.study_rows import StudyRow
from benchmarks.vectors import Setting
from gradsnap.experiments.layouts import Layout
from gradsnap.experiments.means import Mean
from gradsnap.experiments.runs import Outcome
from gradsnap.training.settings import changed

LENGTHS = (32, 64, 128, 192)

CELLS = (
    ("mnist", Layout(2, 16)),
    ("cifar10 outputs", Layout(2, 16)),
    ("cifar10 outputs", Layout(4, 256)),
    ("tiny-imagenet, 50 classes", Layout(1, 256)),
)
"""Where codes are few and where they are many, on pixels and on a network's outputs."""


@dataclass(frozen=True)
class LengthRow:
    """One method in one cell at one length, a figure for each seed."""

    data: str
    layout: str
    method: str
    dim: int
    code_maps: list[float]
    float_maps: list[float]
    precisions: list[float]
    recalls: list[float]

    @property
    def met(self) -> bool | None:
        """A study has no bar."""
        return None

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        return {
            "data": f"{self.data}, {self.layout}",
            "method": self.method,
            "dimensions": str(self.dim),
            "code MAP": str(Mean.of(self.code_maps)),
            "float MAP": str(Mean.of(self.float_maps)),
            "precision@10": f"{fmean(self.precisions):.3f}",
            "recall@10 of floats": f"{fmean(self.recalls):.3f}",
        }

    def record(self) -> report.Record:
        """What is written to the JSON file."""
        return asdict(self)


def run(setting: Setting) -> Iterator[LengthRow | report.Row]:
    """Every cell and length; the table of the page after each."""
    rows: list[LengthRow] = []
    for cell in opened(CELLS, setting):
        if isinstance(cell, report.Row):
            yield cell
            continue
        for method in (PLAIN, cell.task.recipes(cell.layout)[0]):
            for dim in LENGTHS[:1] if setting.quick else LENGTHS:
                rows.append(_measured(cell, cell.known()[method], dim))
                yield rows[-1]
        if not setting.quick:
            put_table("dimensions", [row.cells() for row in rows])


def _measured(cell: Cell, row: StudyRow, dim: int) -> LengthRow:
    runs = [_outcome(cell, row, dim, seed) for seed in range(SEEDS)]
    return LengthRow(
        data=row.data,
        layout=row.layout,
        method=row.method,
        dim=dim,
        code_maps=[run.code_map for run in runs],
        float_maps=[run.float_map for run in runs],
        precisions=[run.precision for run in runs],
        recalls=[run.recall or 0.0 for run in runs],
    )


def _outcome(cell: Cell, row: StudyRow, dim: int, seed: int) -> Outcome:
    config = changed(cell.as_chosen(row, seed), network={"dim": dim})
    found = cell.finished(config, "lengths")
    report.say(f"{row.data}, {row.layout}, {row.method}, {dim}-d, seed {seed}")
    return found

"""Figures 4a and 4b: precision at N of every method, at one length of code."""

from collections.abc import Sequence

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.cache import Record
from gradsnap.experiments.contenders import labelled_methods
from gradsnap.experiments.paper import figures as paper
from gradsnap.experiments.paper.systems import system_of
from gradsnap.experiments.plan import Plan, Request, chosen_rows
from gradsnap.experiments.results import Axes, Cell
from gradsnap.experiments.rows import (
    CHOICES,
    SHORT,
    USUAL,
    Row,
    about_of,
    chosen_at,
)

QUICK_BITS = 8
FEWEST = 50
"""The least N of the curve where the database allows more."""


def curve_plan(bench: Bench, request: Request, data: str) -> Plan:
    """Curves of all trained methods.

    Args:
        bench: what all share.
        request: of the user; the first of its lengths counts.
        data: the paper's data set.
    """
    rows = chosen_rows(bench, request, tuple(labelled_methods()))
    (bits, *_) = request.bits or ((QUICK_BITS if bench.quick else paper.CURVE_BITS),)
    at = (SHORT, USUAL)  # as table 3 does, whose runs are these
    jobs = []
    for name, contender in rows.items():
        row = Row(bench, name, contender, (bits,), point_cells, chosen_among=at)
        jobs += row.jobs()
    told = bench.source.stand_in(data)
    return Plan(
        jobs,
        Axes("N, the nearest by codes", "precision at N"),
        bench.card(bits=bits),
        CHOICES + f"They are chosen at {chosen_at(bits, at)} bits.",
        [*paper.NOTES, *([told] if told else [])],
    )


def point_cells(row: str, bits: int, figures: Sequence[Record]) -> list[Cell]:
    """A cell for each N."""
    if not figures:
        return [Cell(row, "N", (), None, system_of(row))]
    points = [n for n in figures[0]["points"] if n >= FEWEST]
    cells = []
    for n in points:
        values = tuple(one["precisions"][one["points"].index(n)] for one in figures)
        about = about_of(figures) | {"bits": bits}
        cells.append(Cell(row, f"{n}", values, n, system_of(row), "", about))
    return cells

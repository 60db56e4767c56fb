"""What an experiment found: cells of a table, or points of curves, with their card."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gradsnap.evaluation import ProtocolCard
from gradsnap.experiments.means import Mean

Record = dict[str, Any]


class Axes(NamedTuple):
    """What a plot shows."""

    across: str
    up: str
    doubling: bool = False
    """Whether the horizontal axis doubles from mark to mark."""
    divisor: int = 1
    """What a column's place is divided by: 8 shows bits as bytes."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table, or one point of a curve."""

    row: str
    column: str
    values: tuple[float, ...] = ()
    """Ours, one a seed; none where it was not or could not be measured."""
    x: float | None = None
    """Where the column lies on the horizontal axis; None: columns are names."""
    system: str = ""
    """The paper's name of the row."""
    published: str = ""
    """The paper's figure, as printed."""
    about: Record = field(default_factory=dict)
    """What else is known: rate, strength, MAP of floats, seconds, why it failed."""
    words: str = ""
    """Ours, where a cell holds words."""

    @property
    def shown(self) -> str:
        """Mean and standard error, or the one value.

        >>> Cell("a", "b", (0.25,)).shown, Cell("a", "b", (0.25, 0.75)).shown
        ('0.250', '0.500 ± 0.250')
        """
        if self.words:
            return self.words
        if not self.values:
            return "failed" if "error" in self.about else "–"
        mean = Mean.of(self.values)
        return f"{mean.value:.3f}" if len(self.values) == 1 else str(mean)

    def record(self) -> Record:
        """Plain values, for JSON and CSV."""
        mean = Mean.of(self.values) if self.values else None
        known = mean is not None and len(self.values) > 1
        return {
            "row": self.row,
            "in_the_paper": self.system,
            "column": self.column,
            "x": self.x,
            "paper": self.published,
            "ours": mean.value if mean else self.words or None,
            "standard_error": mean.error if mean and known else None,
            "seeds": len(self.values),
            "values": list(self.values),
            "about": self.about,
        }


@dataclass(frozen=True)
class Result:
    """All that an experiment found, ready to be written."""

    name: str
    title: str
    label: str
    """Of the table or figure in the paper."""
    data: str
    cells: Sequence[Cell]
    axes: Axes
    card: ProtocolCard | None
    notes: Sequence[str] = ()
    choices: str = ""
    """What was chosen for each contender, and on what."""
    finished: bool = True

    def rows(self) -> list[str]:
        """The names of the rows, in order."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    def columns(self) -> list[str]:
        """The names of the columns: by their place, or in the order they came."""
        firsts: dict[str, float] = {}
        for cell in self.cells:
            firsts.setdefault(cell.column, len(firsts) if cell.x is None else cell.x)
        return sorted(firsts, key=lambda column: firsts[column])

    def cell(self, row: str, column: str) -> Cell:
        """A cell; an empty one where there is none."""
        for one in self.cells:
            if (one.row, one.column) == (row, column):
                return one
        return Cell(row, column)

    def record(self) -> Record:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "label_in_the_paper": self.label,
            "data": self.data,
            "finished": self.finished,
            "card": self.card.record() if self.card else None,
            "choices": self.choices,
            "notes": list(self.notes),
            "cells": [cell.record() for cell in self.cells],
        }

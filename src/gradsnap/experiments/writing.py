"""A result as JSON, CSV, Markdown and a picture, written beside and renamed."""

import csv
import io
import json
from pathlib import Path

from gradsnap.experiments.contenders import coder_of
from gradsnap.experiments.means import Mean
from gradsnap.experiments.results import Cell, Record, Result
from gradsnap.files import make_folder, write_text
from gradsnap.reports.panels import DoublingFrame, NamedFrame, Panel, panels_picture
from gradsnap.reports.svg import Frame, Look, Point, Series, padded

COLUMNS = (
    "row",
    "in_the_paper",
    "column",
    "paper",
    "ours",
    "standard_error",
    "seeds",
    "values",
    "rate",
    "strength",
    "error",
)
"""Of the CSV file."""


def write_result(result: Result, folder: Path, stem: str) -> list[Path]:
    """Writes every form of a result, and says which files.

    Args:
        result: finished or so far.
        folder: made if it is not there.
        stem: the files' name without its ending.
    """
    make_folder(folder)
    drawn = picture(result)
    texts = {
        "json": json.dumps(result.record(), indent=2, ensure_ascii=False) + "\n",
        "csv": as_csv(result),
        "md": as_markdown(result, f"{stem}.svg" if drawn else None),
        "svg": drawn,
    }
    paths = {folder / f"{stem}.{end}": text for end, text in texts.items() if text}
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


def as_csv(result: Result) -> str:
    """One line a cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for cell in result.cells:
        writer.writerow(cell.record() | {"values": _joined(cell)} | _told(cell))
    return text.getvalue()


def _joined(cell: Cell) -> str:
    return " ".join(f"{value:.6f}" for value in cell.values)


def _told(cell: Cell) -> Record:
    return {name: cell.about.get(name) for name in ("rate", "strength", "error")}


def as_markdown(result: Result, picture_name: str | None) -> str:
    """A page: the picture, the table with the paper's figures beside ours, the card."""
    parts = [f"# {result.title}"]
    if not result.finished:
        parts.append("**Not finished:** the same command goes on from here.")
    if picture_name:
        parts.append(f"![{result.title}]({picture_name})")
    parts += [_table(result), _card(result)]
    if result.notes:
        parts.append("\n".join(["## Notes", "", *(f"* {one}" for one in result.notes)]))
    parts += _chosen(result)
    failed = _failures(result)
    if failed:
        parts.append("\n".join(["## Not measured", "", *failed]))
    return "\n\n".join(parts) + "\n"


def _table(result: Result) -> str:
    columns = result.columns()
    beside = [
        column
        for column in columns
        if any(cell.published for cell in result.cells if cell.column == column)
    ]
    heads = ["method", "in the paper"]
    for column in columns:
        heads += (
            [f"{column}, paper", f"{column}, ours"] if column in beside else [column]
        )
    sides = ["---", "---"] + ["--:" for _ in heads[2:]]
    lines = [heads, sides]
    for row in result.rows():
        cells = [result.cell(row, column) for column in columns]
        system = next((one.system for one in cells if one.system), "")
        line = [row, system]
        for one in cells:
            line += [one.published, one.shown] if one.column in beside else [one.shown]
        lines.append(line)
    return "\n".join(f"| {' | '.join(map(_safe, line))} |" for line in lines)


def _safe(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")


def _card(result: Result) -> str:
    lines = ["## How it was measured", ""]
    card = result.card
    if card is None:
        lines.append("* Nothing was run: the table is what the registry says.")
    else:
        lines += [
            f"* {card}",
            f"* Network: {card.network}.",
            *(f"* {name.capitalize()}: {value}." for name, value in card.options),
            f"* Machine: {card.machine}; {card.version}.",
            f"* Command: `{card.command}`",
        ]
    if result.choices:
        lines.append(f"* Choice: {result.choices}")
    several = max((len(cell.values) for cell in result.cells), default=0)
    if several > 1:
        lines.append(f"* ± is the standard error over {several} seeds.")
    elif several == 1:
        lines.append("* One seed: nothing is known of the spread.")
    return "\n".join(lines)


def _chosen(result: Result) -> list[str]:
    """What was chosen for each row, with the figures that do not fit the table."""
    lines = {}
    for cell in result.cells:
        about = cell.about
        if "rate" in about:
            strength = about["strength"]
            known = [
                f"{about['rate']:g}{' (end)' if about.get('rate_at_end') else ''}",
                "–" if strength is None else f"{strength:g}",
                f"{Mean.of(about['validation_map']).value:.3f}",
                f"{Mean.of(about['float_map']).value:.3f}",
                ", ".join(KEPT.get(one, one) for one in about["fitted_to"]),
                f"{Mean.of(about['seconds']).value:.0f}",
            ]
            bits = f"{about['bits']} bits" if "bits" in about else cell.column
            lines[cell.row, bits] = [cell.row, bits, *known]
    if not lines:
        return []
    heads = ["method", "at", "rate", "strength", *MEANS, "codebooks", "seconds a run"]
    every = [heads, ["---"] * 2 + ["--:"] * 4 + ["---", "--:"], *lines.values()]
    table = "\n".join(f"| {' | '.join(map(_safe, line))} |" for line in every)
    return [f"## What was chosen\n\n{table}"]


MEANS = ("validation MAP", "MAP of floats")
KEPT = {"none": "kept", "train": "training part", "database": "database"}
"""What codebooks were fitted to, as the page says it."""


def _failures(result: Result) -> list[str]:
    reasons = {
        f"{cell.row}, {cell.column}": cell.about["error"]
        for cell in result.cells
        if "error" in cell.about
    }
    return [f"* {where}: {why}" for where, why in reasons.items()]


def picture(result: Result) -> str:
    """A line for each row, as an SVG file; empty where nothing was measured.

    Coders on fixed vectors have a panel of their own.
    """
    trained = [row for row in result.rows() if coder_of(row) is None]
    fixed = [row for row in result.rows() if coder_of(row) is not None]
    groups = {result.data: _lines(result, trained), ON_FIXED: _lines(result, fixed)}
    groups = {name: lines for name, lines in groups.items() if lines}
    if not groups:
        return ""
    up = padded([line for lines in groups.values() for line in lines])
    panels = [_panel(result, name, lines, up) for name, lines in groups.items()]
    return panels_picture(result.title, panels)


ON_FIXED = "coders on fixed vectors"


def _lines(result: Result, rows: list[str]) -> list[Series]:
    lines: list[Series] = []
    for row in rows:
        cells = [result.cell(row, column) for column in result.columns()]
        points = [
            (_place(result, cell, place), Mean.of(cell.values).value)
            for place, cell in enumerate(cells)
            if cell.values
        ]
        if points:
            lines.append(Series(row, points, Look.numbered(len(lines))))
    return lines


def _place(result: Result, cell: Cell, place: int) -> float:
    return float(place) if cell.x is None else cell.x / result.axes.divisor


def _panel(result: Result, name: str, lines: list[Series], up: Point) -> Panel:
    names, columns = (result.axes.across, result.axes.up), result.columns()
    known = {cell.x for cell in result.cells if cell.x is not None}
    places = sorted(x / result.axes.divisor for x in known)
    if not places:
        numbers = [float(number) for number in range(len(columns))]
        ends = (0.0, len(columns) - 1.0)
        return Panel(name, NamedFrame(ends, up, names, columns), lines, numbers)
    ends = places[0], places[-1]
    if not result.axes.doubling:
        return Panel(name, Frame(ends, up, names), lines)
    return Panel(name, DoublingFrame(ends, up, names), lines, places)

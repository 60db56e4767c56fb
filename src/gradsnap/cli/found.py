"""Results as verbs show them: JSON, a table with full paths, a page of pictures."""

import datetime
import tempfile
import webbrowser
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsnap.index import Index
    from gradsnap.reports.tiles import Group

Row = dict[str, Any]

PLAIN = ("distance", "label", "path")
"""Columns of a table unless others are asked for."""


def rows_of(opened: "Index", pairs: Sequence[tuple[Any, float]]) -> list[Row]:
    """For each id and distance all that the index knows of the item."""
    known = opened.metadata([one for one, _ in pairs]) if pairs else []
    return [
        {"id": one, **_path(opened, one), "distance": far, **words}
        for (one, far), words in zip(pairs, known, strict=True)
    ]


def show_table(title: str, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """A table of results; nothing is cut, on a terminal long paths take more lines."""
    from rich.table import Table
    from rich.text import Text

    from gradsnap.cli.output import console
    from gradsnap.strings import shown

    present = {key for row in rows for key in row}
    wanted = columns or [name for name in PLAIN if name in present]
    if not columns and "path" not in present:
        others = [k for row in rows for k in row if k not in ("id", *PLAIN)]
        wanted = ["id", *wanted, *dict.fromkeys(others)]
    table = Table(title=Text(shown(title)), title_justify="left")
    for column in ("rank", *wanted):
        table.add_column(Text(shown(column)), overflow="fold")
    for rank, row in enumerate(rows, 1):
        cells = (Text(shown(as_cell(_value(row, column)))) for column in wanted)
        table.add_row(str(rank), *cells)
    console().print(table)


def as_cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def as_json(value: Any) -> str:
    """What JSON has no word for: dates as ISO text."""
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def check_columns(opened: "Index", text: str | None) -> list[str]:
    """The columns a user asked for, separated by commas.

    Raises:
        InputError: there is no such column.
    """
    from gradsnap.errors import InputError

    wanted = [name.strip() for name in (text or "").split(",") if name.strip()]
    known = ["id", "distance", *opened.columns]
    for name in wanted:
        if name not in known:
            raise InputError(
                f"there is no column {name!r} to show; choose from {', '.join(known)}"
            )
    return wanted


def group_of(opened: "Index", title: str, rows: Iterable[Row]) -> "Group":
    """Results as pictures with their names and distances."""
    from gradsnap.reports.tiles import Group, Tile

    tiles = []
    for row in rows:
        labels = row.get("label")
        said = [f"distance {as_cell(float(row['distance']))}"]
        said += [as_cell(labels)] if labels else []
        tiles.append(Tile(str(row["id"]), opened.path_of(row["id"]), " · ".join(said)))
    return Group(title, tiles)


def write_page(html: Path | None, text: str, opens: bool) -> Path:
    """Writes a page, to a temporary file if no other is named, and opens it."""
    from gradsnap.files import write_text

    if html is None:
        with tempfile.NamedTemporaryFile(suffix=".html", delete=False) as file:
            html = Path(file.name)
    write_text(html, text)
    if opens:
        webbrowser.open(html.absolute().as_uri())
    return html


def footer() -> str:
    """When and by what a page was made."""
    from gradsnap import __version__

    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    return f"gradsnap {__version__}, {now}. Distances are squared; 0 is the same."


def _value(row: Row, column: str) -> Any:
    """A cell; what follows from ids and dates is not in the row."""
    date = row.get("taken") or row.get("time")
    if column in row:
        return row[column]
    if column in ("name", "folder"):
        folder, _, name = str(row["id"]).rpartition("//")[2].rpartition("/")
        return name if column == "name" else folder
    return getattr(date, column, None) if column in ("year", "month") else None


def _path(opened: "Index", one: Any) -> dict[str, str]:
    named = isinstance(one, str) and bool(opened.roots)
    return {"path": opened.roots.shown(one)} if named else {}

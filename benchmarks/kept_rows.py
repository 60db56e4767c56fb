"""Rows of a long benchmark's parts, kept so that a stopped run goes on."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.report import SOURCE, Bar, Row, code_commit
from gradsnap.files import write_text

FOLDER = Path(tempfile.gettempdir()) / "gradsnap-benchmarks"


def kept_rows(name: str, measure: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows of a part: those an earlier run of this code measured, or new ones.

    A part is kept when all of its rows are measured. Files that differ from the commit
    are part of its name, so that a changed benchmark is measured again.
    """
    word = f"{name} {code_commit()} {SOURCE['changed_files']}"
    file = FOLDER / f"{hashlib.sha256(word.encode()).hexdigest()[:24]}.json"
    if file.is_file():
        yield from map(_row, json.loads(file.read_text("utf-8")))
        return
    rows = []
    for row in measure():
        rows.append(row)
        yield row
    if any(row.note.startswith("skipped") for row in rows):
        return  # it may be measured next time
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps([row.record() for row in rows]))


def _row(told: dict[str, object]) -> Row:
    """A row of its record."""
    bar = told.pop("bar")
    told.pop("met")
    if isinstance(bar, str):
        sign, value = bar.split()[:2]
        told["bar"] = Bar(sign, float(value))
    return Row(**told)  # type: ignore[arg-type]

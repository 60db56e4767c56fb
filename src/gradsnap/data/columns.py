"""Columns of a table by their names: a CSV file with a header, or a Parquet file."""

import csv
import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from gradsnap.data.parquet import parquet_columns
from gradsnap.errors import FileFormatError, InputError
from gradsnap.progress import track
from gradsnap.reading import reading

BLOCK = 1 << 16
"""Rows read between two steps of the progress bar."""

Columns = dict[str, list[str]]


def read_columns(
    path: str | os.PathLike[str], needed: Sequence[str], optional: Sequence[str] = ()
) -> Columns:
    """The named columns of a table, as text; others are left out.

    Args:
        path: ends in ``.csv``, with a header, or in ``.parquet``.
        needed: columns that must be there.
        optional: columns that may be.

    Raises:
        InputError: no such file, another suffix, a missing column, no rows.
        FileFormatError: a row that does not fit the header.
    """
    table = Path(path)
    if not table.is_file():
        raise InputError(f"there is no file {table}")
    if table.suffix not in (".csv", ".parquet"):
        raise InputError(
            f"{table} ends in {table.suffix!r}; expected .csv with a header, or "
            ".parquet"
        )
    wanted = (*needed, *optional)
    reader = parquet_columns if table.suffix == ".parquet" else _csv_columns
    found = reader(table, wanted)
    missing = [name for name in needed if name not in found]
    if missing:
        raise InputError(
            f"{table} has no column {', '.join(missing)}; expected a first line with "
            f"the names {','.join(wanted)}"
        )
    if not found[needed[0]]:
        raise InputError(f"{table} has a header and no rows")
    return found


def _csv_columns(table: Path, wanted: Sequence[str]) -> Columns:
    with (
        reading(table, "a table"),
        table.open(encoding="utf-8-sig", newline="") as file,
    ):
        rows = csv.reader(file)
        header = [name.strip() for name in next(rows, [])]
        places = {name: header.index(name) for name in wanted if name in header}
        found: Columns = {name: [] for name in places}
        blocks = iter(lambda: list(itertools.islice(rows, BLOCK)), [])
        for block in track(blocks, f"reading {table.name}"):
            kept = [row for row in block if row]
            wrong = next((row for row in kept if len(row) != len(header)), None)
            if wrong is not None:
                raise FileFormatError(
                    f"{table}: the header has {len(header)} columns, and a row has "
                    f"{len(wrong)}: {','.join(wrong)}"
                )
            for name, place in places.items():
                found[name] += [row[place].strip() for row in kept]
    return found

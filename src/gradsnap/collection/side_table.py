"""A CSV table beside the images, joined to them by name."""

import csv
import os
import posixpath
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gradsnap.errors import FileFormatError, InputError
from gradsnap.index.segment_columns import storable
from gradsnap.reading import reading

KEYS = ("name", "path", "file", "filename", "image", "id")
"""What the column with the images' names may be called; else it is the first."""

RESERVED = ("size", "time", "checksum", "id", "path", "folder", "name")
"""Columns that the files themselves fill."""


class SideTable:
    """Rows of a CSV file by the name of an image.

    A name in the table is a path below the folder, or the file's name alone where no
    two files of the table share it. Columns of whole numbers, of numbers and of
    ``true`` and ``false`` are read as such, others are text; an empty cell is no value.

    Args:
        path: the file, with a first line of names.

    Raises:
        InputError: no such file, or columns that the files themselves fill.
        FileFormatError: a row that does not fit the first line, or a name twice.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise InputError(f"there is no table {self.path}")
        how = {"encoding": "utf-8-sig", "newline": "", "errors": "surrogateescape"}
        with reading(path, "a table"), open(path, **how) as file:  # type: ignore[call-overload]
            rows = [row for row in csv.reader(file) if row]
        if len(rows) < 2 or len(rows[0]) < 2:
            raise FileFormatError(
                f"{self.path} needs a first line with a column for the image's name "
                "and one for each thing known of it, and a row for each image"
            )
        self.header = [name.strip() for name in rows[0]]
        self.key = _key_of(self.header)
        self._check_header()
        self._rows = self._by_name(rows[1:])
        self._kinds = {
            place: _kind_of([row[place] for row in rows[1:]])
            for place in range(len(self.header))
            if place != self.key
        }

    def __len__(self) -> int:
        return len(self._rows)

    def columns_for(self, names: Sequence[str]) -> dict[str, Any]:
        """Pyarrow columns for images of such names; empty where the table has none."""
        import pyarrow

        rows = [self.row_of(name) for name in names]
        return {
            self.header[place]: pyarrow.array(
                [None if row is None else _read(row[place], kind) for row in rows],
                type=pyarrow.type_for_alias(kind),
            )
            for place, kind in self._kinds.items()
        }

    def row_of(self, name: str) -> list[str] | None:
        """The row of an image, by its path or its name alone; None if it has none."""
        known = self._rows
        return known.get(name) or known.get(posixpath.basename(name))

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """Names in the table that no image has."""
        seen = {one for name in names for one in (name, posixpath.basename(name))}
        return [name for name in self._rows if name not in seen]

    def _check_header(self) -> None:
        own = [name for place, name in enumerate(self.header) if place != self.key]
        if len(set(self.header)) < len(self.header) or "" in self.header:
            raise FileFormatError(
                f"{self.path}: its columns need names that differ, got {self.header}"
            )
        taken = sorted(set(own) & set(RESERVED))
        if taken:
            raise InputError(
                f"{self.path} has a column {', '.join(taken)}, which the files "
                "themselves fill: give it another name"
            )

    def _by_name(self, rows: Sequence[list[str]]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for number, row in enumerate(rows, 2):
            if len(row) != len(self.header):
                raise FileFormatError(
                    f"{self.path}, row {number}: {len(row)} cells, where the first "
                    f"line has {len(self.header)}"
                )
            name = row[self.key].strip().replace("\\", "/").removeprefix("./")
            if name in found:
                raise FileFormatError(
                    f"{self.path}, row {number}: {name!r} comes twice"
                )
            found[name] = row
        return found


def cells(texts: Sequence[str]) -> Any:
    """A pyarrow column of texts, as the narrowest kind that all of them are."""
    import pyarrow

    kind = _kind_of(texts)
    values = [_read(text, kind) for text in texts]
    return pyarrow.array(values, pyarrow.type_for_alias(kind))


def _key_of(header: Sequence[str]) -> int:
    lower = [name.lower() for name in header]
    return next((lower.index(key) for key in KEYS if key in lower), 0)


def _kind_of(cells: Sequence[str]) -> str:
    """The narrowest kind that all cells are: int64, double, bool or string."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    for kind in ("int64", "double", "bool"):
        try:
            for cell in filled:
                _read(cell, kind)
        except (ValueError, OverflowError):
            continue
        return kind if filled else "string"
    return "string"


def _read(cell: str, kind: str) -> int | float | bool | str | None:
    text = cell.strip()
    if not text:
        return None
    if kind == "string":
        return storable(text)
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if "_" in text:
        raise ValueError(text)
    if kind == "int64":
        number = int(text)
        number.to_bytes(8, signed=True)
        return number
    return float(text)

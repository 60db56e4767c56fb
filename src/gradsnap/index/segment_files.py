"""Segments in files: one raw array a column; large ones are mapped when opened."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.errors import FileFormatError
from gradsnap.index.metadata import StoredTable, write_metadata
from gradsnap.index.segments import Segment, narrow
from gradsnap.strings import PackedStrings

Array = NDArray[Any]
Entry = dict[str, Any]

DTYPES = {
    "uint8": np.uint8,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
}

READ = 2**16
"""Bytes up to which a column is read: many small saves would take as many handles."""

WORDS = ("text", "ends")
"""Columns of the names, which may change while the others stay."""


def write_segment(folder: Path, name: str, segment: Segment) -> Entry:
    """Writes the columns that never change; gives their entry of the manifest."""
    columns: Entry = {}
    for column, array in _columns(segment):
        columns[column] = _write_column(folder, f"{name}.{column}", array)
    entry: Entry = {
        "name": name,
        "items": len(segment),
        "first": segment.first,
        "columns": columns,
    }
    if segment.stored is not None:
        entry["metadata"] = f"{name}.parquet"
        write_metadata(segment.table, folder / entry["metadata"])
    return entry


def rewrite_words(folder: Path, name: str, segment: Segment, entry: Entry) -> Entry:
    """Writes names and metadata anew; the entry with them, and with the old codes."""
    columns = dict(entry["columns"])
    for column, array in _columns(segment):
        if column in WORDS:
            columns[column] = _write_column(folder, f"{name}.{column}", array)
    entry = {**entry, "columns": columns}
    if segment.stored is not None:
        entry["metadata"] = f"{name}.parquet"
        write_metadata(segment.table, folder / entry["metadata"])
    return entry


def write_removed(folder: Path, file: str, segment: Segment) -> list[Any]:
    """Writes which positions are removed; gives the column's entry."""
    return _write_column(folder, file, narrow(segment.removed))


def open_segment(folder: Path, entry: Entry) -> Segment:
    """Maps the columns of a segment.

    Raises:
        FileFormatError: the columns do not fit each other.
    """
    columns = {
        name: _map_column(folder, value) for name, value in entry["columns"].items()
    }
    names = None
    if "text" in columns:
        names = PackedStrings(columns["text"], columns["ends"])
    segment = Segment(
        codes=columns["codes"],
        ids=columns.get("ids"),
        first=int(entry["first"]),
        bounds=columns.get("bounds"),
        fine=columns.get("fine"),
        names=names,
        name=str(entry["name"]),
    )
    if "metadata" in entry:
        segment.stored = StoredTable(folder / entry["metadata"], len(segment))
    if "removed" in entry:
        segment.removed = _map_column(folder, entry["removed"]).astype(np.int64)
    _check(folder, segment, int(entry["items"]))
    return segment


def files_of(entry: Entry) -> Iterator[str]:
    """The names of a segment's files."""
    for column in entry["columns"].values():
        yield column[0]
    if "metadata" in entry:
        yield entry["metadata"]
    if "removed" in entry:
        yield entry["removed"][0]


def _columns(segment: Segment) -> Iterator[tuple[str, Array]]:
    yield "codes", np.asarray(segment.codes)
    if segment.ids is not None:
        yield "ids", np.asarray(segment.ids)
    if segment.bounds is not None:
        yield "bounds", narrow(np.asarray(segment.bounds))
    if segment.fine is not None:
        yield "fine", np.asarray(segment.fine)
    if segment.names is not None:
        yield "text", np.asarray(segment.names.text)
        yield "ends", np.asarray(segment.names.ends)


def _write_column(folder: Path, name: str, array: Array) -> list[Any]:
    with (folder / name).open("wb") as file:
        file.write(np.ascontiguousarray(array).data)
    return [name, array.dtype.name, list(array.shape)]


def _map_column(folder: Path, column: list[Any]) -> Array:
    file, dtype, shape = column
    if dtype not in DTYPES or Path(file).name != file:
        raise FileFormatError(f"{folder}: a column {file!r} of type {dtype!r}")
    size = int(np.prod(shape)) * np.dtype(DTYPES[dtype]).itemsize
    if (folder / file).stat().st_size != size:
        raise FileFormatError(f"{folder / file} does not hold {shape} of {dtype}")
    if size == 0:
        return np.empty(shape, dtype=DTYPES[dtype])
    return np.frombuffer(_bytes_of(folder / file, size), DTYPES[dtype]).reshape(shape)


def _bytes_of(path: Path, size: int) -> bytes | mmap.mmap:
    """A file's bytes: mapped, or read where a mapping costs more than it saves."""
    with path.open("rb") as file:
        if size > READ:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        return file.read(size)


def _check(folder: Path, segment: Segment, count: int) -> None:
    """What a scan relies on, so that no file can lead it outside of the arrays."""
    columns = (segment.codes, segment.ids, segment.fine, segment.names)
    if any(c is not None and len(c) != count for c in columns):
        raise FileFormatError(
            f"{folder}: the columns of {segment.name} differ in length"
        )
    bounds = segment.bounds
    if bounds is not None:
        bounds = segment.bounds = bounds.astype(np.int64)
        whole = len(bounds) and bounds[0] == 0 and bounds[-1] == count
        if not whole or (np.diff(bounds) < 0).any():
            raise FileFormatError(
                f"{folder}: the lists of {segment.name} do not add up"
            )
    removed = segment.removed
    inside = len(removed) == 0 or (removed[0] >= 0 and removed[-1] < count)
    if not inside or (np.diff(removed) <= 0).any():
        raise FileFormatError(f"{folder}: {segment.name} removes what is not there")

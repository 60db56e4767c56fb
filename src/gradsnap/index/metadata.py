"""Metadata columns beside the codes: a path, a label, a price for each item."""

import functools
import os
import weakref
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import Any

from gradsnap.errors import FileFormatError, InputError

Metadata = Mapping[str, Sequence[Any]] | Any
"""Columns by name, or a pyarrow table."""


def checked_metadata(metadata: Metadata, count: int) -> Any:
    """A pyarrow table of ``count`` rows."""
    arrow = _arrow()
    table: Any = metadata
    if not isinstance(metadata, arrow.Table):
        if not isinstance(metadata, Mapping):
            raise InputError(
                "metadata must be columns by name or a pyarrow table, got "
                f"{type(metadata).__name__}"
            )
        columns = {str(name): _plain(column) for name, column in metadata.items()}
        wrong = {n: len(c) for n, c in columns.items() if len(c) != count}
        if wrong:
            raise InputError(f"{count} items need columns as long, got {wrong}")
        try:
            table = arrow.table(columns)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise InputError(f"metadata cannot be made a table: {error}") from error
    if table.num_rows != count:
        raise InputError(f"{count} items need {count} rows, got {table.num_rows}")
    return table


def join_tables(tables: Sequence[Any], lengths: Sequence[int]) -> Any:
    """Tables one below the other; columns that one of them lacks are empty there."""
    if all(table is None for table in tables):
        return None
    arrow = _arrow()
    filled = [arrow.table({}) if table is None else table for table in tables]
    names = {name: None for table in filled for name in table.column_names}
    full = []
    for table, length in zip(filled, lengths, strict=True):
        columns = {
            name: table[name] if name in table.column_names else arrow.nulls(length)
            for name in names
        }
        full.append(arrow.table(columns))
    return arrow.concat_tables(full, promote_options="permissive")


def write_metadata(table: Any, path: str | os.PathLike[str]) -> None:
    """A Parquet file of the table."""
    from pyarrow import parquet

    parquet.write_table(table, os.fspath(path))


class StoredTable:
    """A Parquet file that is opened at once and read when it is first asked for.

    The open file stays readable when a writer replaces it.

    Args:
        path: of the file.
        rows: how many it must have.
    """

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self.rows = path, rows
        self._file = path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)

    @functools.cached_property
    def table(self) -> Any:
        """The columns.

        Arrow gets a copy in memory of its own and no threads: a thread that lets go of
        a Python file while Python exits aborts the process.

        Raises:
            FileFormatError: the file is truncated, changed or not Parquet.
        """
        arrow = _arrow()
        from pyarrow import parquet

        try:
            size = os.fstat(self._file.fileno()).st_size
            memory = arrow.allocate_buffer(size)
            self._file.seek(0)
            _read_whole(self._file, memoryview(memory))
            reader = arrow.BufferReader(memory)
            file = parquet.ParquetFile(reader, pre_buffer=False)
            table = file.read(use_threads=False)
        except (arrow.ArrowException, OSError, ValueError) as error:  # no UTF-8
            raise FileFormatError(f"{self.path} cannot be read: {error}") from error
        if table.num_rows != self.rows:
            raise FileFormatError(
                f"{self.path} holds {table.num_rows} rows for {self.rows} items"
            )
        return table


def _read_whole(file: FileIO, into: memoryview) -> None:
    """Fills the memory; one call to the system may read less."""
    at = 0
    while at < len(into):
        count = file.readinto(into[at:])
        if not count:
            raise OSError(f"ends after {at} of {len(into)} bytes")
        at += count


def _plain(column: Any) -> Any:
    if isinstance(column, _arrow().Array):
        return column
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _arrow() -> ModuleType:
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            "metadata columns need pyarrow: pip install pyarrow"
        ) from error
    module: ModuleType = pyarrow
    return module

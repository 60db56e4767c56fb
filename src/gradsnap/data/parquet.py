"""Vectors and labels in the columns of a Parquet file."""

import bisect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.mapped import as_vectors, check_matrix
from gradsnap.errors import FileFormatError, InputError
from gradsnap.reading import reading

VECTOR_COLUMNS = ("vectors", "vector", "embeddings", "embedding")

LABEL_COLUMNS = ("labels", "label")


class ParquetVectors:
    """Rows of a column of lists, decoded one row group at a time.

    The last row group is kept, so that reading in order is fast and takes the memory of
    one group. Reading in random order decodes a group for nearly each row: copy the
    rows that train with ``in_memory`` first.

    Args:
        path: the file.

    Raises:
        InputError: pyarrow is not installed, or no column has one of the known names.
        FileFormatError: the file is truncated or not a Parquet file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        metadata = _open(self.path).metadata
        groups = [
            metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)
        ]
        self.column = _one_of(VECTOR_COLUMNS, self.path)
        self._starts = [0, *np.cumsum(groups).tolist()]
        self._kept: tuple[int, NDArray[Any]] | None = None
        if self.column is None:
            raise InputError(
                f"{self.path} has no column called {', '.join(VECTOR_COLUMNS)}; it has "
                f"{', '.join(_open(self.path).schema_arrow.names)}"
            )
        self.dim = self._group(0).shape[1] if len(self) else 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def batch(self, indices: Tensor) -> Tensor:
        """The vectors at indices (b,), float32 (b, dim)."""
        rows = np.empty((len(indices), self.dim), dtype=np.float32)
        groups = [
            bisect.bisect_right(self._starts, row) - 1 for row in indices.tolist()
        ]
        for group in sorted(set(groups)):
            here = np.array(groups) == group
            rows[here] = self._group(group)[indices.numpy()[here] - self._starts[group]]
        return as_vectors(rows, indices, self.path)

    def _group(self, number: int) -> NDArray[Any]:
        """The vectors of a row group, (rows, dim)."""
        if self._kept is None or self._kept[0] != number:
            with reading(self.path, "Parquet"):
                table = _open(self.path).read_row_group(number, columns=[self.column])
            matrix = as_matrix(table.column(0).combine_chunks(), self.path)
            check_matrix(matrix.shape, matrix.dtype, f"{self.path}, {self.column}")
            rows = self._starts[number + 1] - self._starts[number]
            if len(matrix) != rows:
                raise FileFormatError(
                    f"{self.path}: row group {number} should have {rows} rows, and has "
                    f"{len(matrix)}"
                )
            self._kept = (number, matrix)
        matrix = self._kept[1]
        if number and matrix.shape[1] != self.dim:
            raise FileFormatError(
                f"{self.path}: row group {number} has vectors of length "
                f"{matrix.shape[1]}, the first has {self.dim}"
            )
        return matrix


def parquet_labels(path: Path) -> NDArray[Any] | None:
    """The column of labels, (n,) or (n, L); None where there is none."""
    column = _one_of(LABEL_COLUMNS, os.fspath(path))
    if column is None:
        return None
    with reading(path, "Parquet"):
        table = _open(os.fspath(path)).read(columns=[column])
    values = table.column(0).combine_chunks()
    if values.null_count:
        raise InputError(f"{path}: {values.null_count} rows of {column} are empty")
    if _is_list(values):
        return as_matrix(values, os.fspath(path))
    return np.array(values.to_pylist())


def parquet_columns(path: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Those of the wanted columns that are there, as text."""
    file = _open(os.fspath(path))
    names = [name for name in wanted if name in file.schema_arrow.names]
    with reading(path, "Parquet"):
        table = file.read(columns=names)
    for name in names:
        empty = table.column(name).null_count
        if empty:
            raise InputError(f"{path}: {empty} rows of {name} are empty")
    return {
        name: [str(one) for one in table.column(name).to_pylist()] for name in names
    }


def _open(path: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"reading {path} needs pyarrow: pip install pyarrow"
        ) from error
    with reading(path, "Parquet"):
        return parquet.ParquetFile(path, memory_map=True)


def _one_of(names: tuple[str, ...], path: str) -> str | None:
    columns = _open(path).schema_arrow.names
    return next((name for name in names if name in columns), None)


def _is_list(values: Any) -> bool:
    from pyarrow import types

    kind = values.type
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    )


def as_matrix(values: Any, path: str) -> NDArray[Any]:
    """A column of lists of one length as an array (rows, length)."""
    from pyarrow import compute

    if not _is_list(values) or values.null_count:
        raise InputError(f"{path}: expected a list in every row, got {values.type}")
    flat = values.flatten().to_numpy(zero_copy_only=False)
    lengths = compute.list_value_length(values).to_numpy(zero_copy_only=False)
    if len(set(lengths.tolist())) != 1:
        few, many = min(lengths, default=0), max(lengths, default=0)
        raise InputError(
            f"{path}: {len(lengths)} lists have {few} to {many} numbers, expected one "
            "length"
        )
    return np.asarray(flat).reshape(len(lengths), -1)

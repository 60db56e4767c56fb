"""Vectors in a file, with labels in it or beside it: data without images."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gradsnap.data.dataset import Dataset, Items
from gradsnap.data.images import ImageOptions
from gradsnap.data.labels import as_labels
from gradsnap.data.mapped import mapped_bvecs, mapped_fvecs, mapped_npy
from gradsnap.data.npz import mapped_npz, npz_labels
from gradsnap.data.parquet import ParquetVectors, parquet_labels
from gradsnap.errors import FileFormatError, InputError

READERS: dict[str, Callable[[Path], Items]] = {
    ".npy": mapped_npy,
    ".npz": mapped_npz,
    ".fvecs": mapped_fvecs,
    ".bvecs": mapped_bvecs,
    ".parquet": ParquetVectors,
}
"""What reads the vectors of a file, by its suffix."""

LABEL_READERS: dict[str, Callable[[Path], NDArray[Any] | None]] = {
    ".npz": npz_labels,
    ".parquet": parquet_labels,
}
"""What reads labels that lie in the same file."""


def open_vectors(
    path: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """Vectors float32 (dim,) from a file that may be larger than memory.

    ``.npy``, ``.npz`` (array ``vectors``), ``.fvecs`` and ``.bvecs`` are mapped into
    memory; ``.parquet`` is decoded a row group at a time. Labels are the array or
    column ``labels`` of the file, or the file ``<name>.labels.npy`` beside it: integers
    or strings (n,), or 0 and 1 for each label (n, L). Without either there are none.

    Raises:
        InputError: another suffix, shape or type; labels that do not fit; NaN, when its
            row is read.
        FileFormatError: the file is truncated or not in the format of its name.
    """
    if path is None or not Path(path).is_file():
        raise InputError(f"expected a file of vectors, got {path}")
    if options not in (None, ImageOptions()):
        raise InputError(f"{path} holds vectors; {options} is for images")
    file = Path(path)
    if file.suffix not in READERS:
        raise InputError(
            f"{file} ends in {file.suffix!r}; vectors are read from files that end in "
            f"{', '.join(READERS)}"
        )
    items, raw = READERS[file.suffix](file), _labels(file)
    labels, classes = (None, ()) if raw is None else as_labels(raw, f"labels of {file}")
    return Dataset(
        name=os.fspath(path),
        items=items,
        names=RowNames(file.name, len(items)),
        labels=labels,
        classes=classes,
    )


@dataclass(frozen=True)
class RowNames(Sequence[str]):
    """Names of rows, ``file:row``, made when asked for."""

    file: str
    rows: int

    def __len__(self) -> int:
        return self.rows

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(self.rows)[index]]
        return f"{self.file}:{range(self.rows)[index]}"


def _labels(file: Path) -> NDArray[Any] | None:
    """The labels in the file, or else beside it, or else none."""
    inside = LABEL_READERS[file.suffix](file) if file.suffix in LABEL_READERS else None
    beside = file.with_name(f"{file.stem}.labels.npy")
    if inside is not None or not beside.is_file():
        return inside
    try:
        labels: NDArray[Any] = np.load(beside, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FileFormatError(f"{beside} is truncated or no array: {error}") from error
    return labels

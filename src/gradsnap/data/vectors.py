"""Vectors in a file, with labels in it or beside it: data without images."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.dataset import Dataset, Items, check_range
from gradsnap.data.images import ImageOptions
from gradsnap.data.mapped import (
    map_bvecs,
    map_fvecs,
    map_npy,
    map_npz,
    npz_array,
    npz_labels,
)
from gradsnap.data.parquet import ParquetVectors, parquet_labels
from gradsnap.errors import InputError
from gradsnap.reading import reading

READERS: dict[str, Callable[[Path], Items]] = {
    ".npy": map_npy,
    ".npz": map_npz,
    ".fvecs": map_fvecs,
    ".bvecs": map_bvecs,
    ".parquet": ParquetVectors,
}
"""What reads the vectors of a file, by its suffix."""

LABEL_READERS: dict[str, Callable[[Path], NDArray[Any] | None]] = {
    ".npz": npz_labels,
    ".parquet": parquet_labels,
}
"""What reads labels that lie in the same file."""

MAX_CLASSES = 1_000_000
"""More classes than this are taken for a mistake, such as item ids read as labels."""


def open_vectors(
    path: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """Vectors float32 (dim,) from a file that may be larger than memory.

    ``.npy``, ``.npz`` (array ``vectors``), ``.fvecs`` and ``.bvecs`` are mapped into
    memory; ``.parquet`` is decoded a row group at a time. Labels are the array or
    column ``labels`` of the file, or the file ``<name>.labels.npy`` beside it: integers
    or strings (n,), or 0 and 1 for each label (n, L). Without either there are none. An
    array ``held_out`` of 0 and 1 (n,) in ``.npz`` marks a published test part.

    Raises:
        InputError: another suffix, shape or type; labels that do not fit; NaN, when its
            row is read.
        FileFormatError: the file is truncated or not in the format of its name.
    """
    if path is None or not Path(path).is_file():
        raise InputError(f"expected a file of vectors, got {path}")
    if options is not None and (options.side or options.channels or options.skip_bad):
        raise InputError(
            f"{path} holds vectors; side, channels and --skip-bad are for images"
        )
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
        held_out=_held_out(file),
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
    with reading(beside, "an array"):
        labels: NDArray[Any] = np.load(beside, allow_pickle=False)
    return labels


def _held_out(file: Path) -> Tensor | None:
    """The published test part, bool (n,), where the file marks one."""
    raw = npz_array(file, "held_out") if file.suffix == ".npz" else None
    return None if raw is None else torch.from_numpy(raw.astype(bool))


def as_labels(raw: NDArray[Any], source: str) -> tuple[Tensor, tuple[str, ...]]:
    """Labels read from a file, and the names of the classes.

    Args:
        raw: one integer or string an item, (n,), or 0 and 1 for each label, (n, L).
        source: where they come from, for the error.

    Returns:
        Labels int64 (n,) with one class name for each of 0 to their maximum (strings
        are numbered in sorted order), or multi-hot labels bool (n, L).

    Raises:
        InputError: another shape or type, negative or huge integers.

    Example:
        >>> as_labels(np.array(["dog", "cat", "dog"]), "labels.npy")
        (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    if raw.ndim == 1 and raw.dtype.kind in "US":
        names, numbers = np.unique(raw, return_inverse=True)
        return torch.from_numpy(numbers.astype(np.int64)), tuple(map(str, names))
    if raw.ndim == 1 and raw.dtype.kind in "iub":
        return _class_numbers(raw, source)
    if raw.ndim == 2 and raw.dtype.kind in "iub":
        return _multi_hot(raw, source)
    raise InputError(
        f"{source}: labels must be integers or strings (n,), or 0 and 1 for each "
        f"label (n, L); got {raw.dtype} of shape {raw.shape}"
    )


def _class_numbers(raw: NDArray[Any], source: str) -> tuple[Tensor, tuple[str, ...]]:
    if not len(raw):
        raise InputError(f"{source}: there are no labels")
    check_range(int(raw.min()), int(raw.max()), MAX_CLASSES, source)
    labels = torch.from_numpy(raw.astype(np.int64))
    return labels, tuple(str(label) for label in range(int(raw.max()) + 1))


def _multi_hot(raw: NDArray[Any], source: str) -> tuple[Tensor, tuple[str, ...]]:
    wrong = (raw != 0) & (raw != 1)
    if wrong.any():
        raise InputError(
            f"{source}: labels of shape {raw.shape} must be 0 or 1, "
            f"got {raw[wrong].flat[0]}"
        )
    names = tuple(str(label) for label in range(raw.shape[1]))
    return torch.from_numpy(raw.astype(bool)), names

"""Vectors in a memory-mapped file: pages are read when rows are asked for."""

import functools
import math
import os
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import FileFormatError, InputError
from gradsnap.reading import reading

MEMBER = "vectors.npy"

LOCAL_HEADER = 30
"""Bytes of a zip member's own header, before its name and its extra field."""


@dataclass(frozen=True, eq=False)
class MappedVectors:
    """Rows of a file that is mapped into memory, once in every process.

    Rows are checked as they are read: NaN, infinity and, in a ``.fvecs`` or ``.bvecs``
    file, a row of another length are refused by their number.
    """

    path: str
    """The file."""

    dim: int
    """Length of each vector."""

    shape: tuple[int, ...]
    """(n, dim) of plain numbers, or (n,) of records with the fields dim and vector."""

    dtype: np.dtype[Any]
    """Type of a number, or of a record."""

    offset: int = 0
    """Bytes before the first."""

    column_order: bool = False
    """Whether the numbers of a column lie together (Fortran order)."""

    @functools.cached_property
    def rows(self) -> NDArray[Any]:
        """The mapped file; not sent to other processes, which map it again."""
        order = "F" if self.column_order else "C"
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)  # type: ignore[call-overload, no-any-return]

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __len__(self) -> int:
        return self.shape[0]

    def batch(self, indices: Tensor) -> Tensor:
        """The vectors at indices (b,), float32 (b, dim)."""
        rows = self.rows[indices.numpy()]
        if rows.dtype.names:
            self._check_lengths(rows["dim"], indices)
            rows = rows["vector"]
        return as_vectors(rows, indices, self.path)

    def _check_lengths(self, lengths: NDArray[np.int32], indices: Tensor) -> None:
        wrong = lengths != self.dim
        if wrong.any():
            row = int(indices[torch.from_numpy(wrong)][0])
            raise FileFormatError(
                f"{self.path}: row {row} has the length {lengths[wrong][0]}, the first "
                f"has {self.dim}"
            )


def as_vectors(rows: NDArray[Any], indices: Tensor, source: str) -> Tensor:
    """Rows (b, dim) of any number type as float32; refuses NaN and infinity."""
    # What is too large for float32, or no number, is refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = torch.from_numpy(np.array(rows, dtype=np.float32))
    finite = vectors.isfinite().all(dim=1)
    if not finite.all():
        raise InputError(
            f"{source}: row {int(indices[~finite][0])} holds NaN or infinity, as do "
            f"{int((~finite).sum())} of the {len(rows)} rows read with it"
        )
    return vectors


def map_npy(path: Path) -> MappedVectors:
    """The vectors of a ``.npy`` file, (n, dim) of any number type."""
    with reading(path, "an array"):
        array = np.lib.format.open_memmap(os.fspath(path), mode="r")
    check_matrix(array.shape, array.dtype, os.fspath(path))
    by_columns = not array.flags.c_contiguous
    return MappedVectors(
        os.fspath(path),
        array.shape[1],
        array.shape,
        array.dtype,
        array.offset,
        by_columns,
    )


def map_fvecs(path: Path) -> MappedVectors:
    """The vectors of a ``.fvecs`` file: a length, then as many float32, again."""
    return _map_records(path, "<f4")


def map_bvecs(path: Path) -> MappedVectors:
    """The vectors of a ``.bvecs`` file: a length, then as many bytes, again."""
    return _map_records(path, "u1")


def _map_records(path: Path, number: str) -> MappedVectors:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(4)
    dim = int.from_bytes(head, "little", signed=True)
    if len(head) < 4 or not 0 < dim <= size:
        raise FileFormatError(
            f"{path} is truncated, or not in the format of its name: a file of {size} "
            f"bytes gives {dim} as the length of its first vector"
        )
    record = np.dtype([("dim", "<i4"), ("vector", number, (dim,))])
    if size % record.itemsize:
        raise FileFormatError(
            f"{path} is truncated: {size} bytes are not a whole number of "
            f"{record.itemsize}-byte records of {dim} numbers"
        )
    return MappedVectors(os.fspath(path), dim, (size // record.itemsize,), record)


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], source: str) -> None:
    """Refuses what is not (n, dim) of numbers."""
    counts = all(type(one) is int for one in shape)  # a file may say True
    if len(shape) != 2 or 0 in shape or not counts or dtype.kind not in "fiu":
        raise InputError(
            f"{source}: expected vectors of shape (n, dim), floating or integer; got "
            f"{dtype} of shape {tuple(shape)}"
        )


def map_npz(path: Path) -> MappedVectors:
    """The vectors of an archive that ``numpy.savez`` wrote, under ``vectors``.

    Raises:
        InputError: there is no such array, or it is compressed.
        FileFormatError: the archive is truncated or not one.
    """
    with reading(path, "an archive"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        member = archive.getinfo(MEMBER) if MEMBER in names else None
        header = None if member is None else _header(archive, member)
    if member is None or header is None:
        raise InputError(f"{path} needs an array called vectors; it has {names}")
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError(
            f"{path} is compressed, so that it cannot be mapped into memory; write it "
            f"with numpy.savez, or the vectors with numpy.save"
        )
    check_matrix(header.shape, header.dtype, f"{path}, vectors")
    offset = _data_offset(path, member) + header.length
    _check_room(path, offset, header)
    return MappedVectors(
        os.fspath(path),
        header.shape[1],
        header.shape,
        header.dtype,
        offset,
        header.column_order,
    )


def _check_room(path: Path, offset: int, header: "_Header") -> None:
    """Refuses an array of more numbers than the file has room for."""
    end, size = offset + math.prod(header.shape) * header.dtype.itemsize, path.stat()
    if end > size.st_size:
        raise FileFormatError(
            f"{path} is truncated: vectors of shape {header.shape} end at byte {end}, "
            f"and the file has {size.st_size}"
        )


def npz_array(path: Path, name: str) -> NDArray[Any] | None:
    """An array of the archive, such as ``labels``; None where there is none."""
    with reading(path, f"an archive with {name} that can be read"):
        with np.load(path, allow_pickle=False) as archive:
            found = archive.get(name)
        if found is not None and not isinstance(found, np.ndarray):
            raise ValueError(f"{name} is no array")
        return found


def npz_labels(path: Path) -> NDArray[Any] | None:
    """The array ``labels`` of the archive; None where there is none."""
    return npz_array(path, "labels")


class _Header(NamedTuple):
    shape: tuple[int, ...]
    column_order: bool
    dtype: np.dtype[Any]
    length: int


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Header:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        return _Header(*read(file), file.tell())


def _data_offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the member's bytes begin; the lengths stand in its own header."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        header = file.read(LOCAL_HEADER)
    name = int.from_bytes(header[26:28], "little")
    extra = int.from_bytes(header[28:30], "little")
    return member.header_offset + LOCAL_HEADER + name + extra

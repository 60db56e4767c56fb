"""Arrays of a ``.npz`` archive, mapped into memory where they are not compressed."""

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradsnap.data.mapped import MappedVectors, check_matrix
from gradsnap.errors import FileFormatError, InputError

MEMBER = "vectors.npy"

LOCAL_HEADER = 30
"""Bytes of a zip member's own header, before its name and its extra field."""


def mapped_npz(path: Path) -> MappedVectors:
    """The vectors of an archive that ``numpy.savez`` wrote, under ``vectors``.

    Raises:
        InputError: there is no such array, or it is compressed.
        FileFormatError: the archive is truncated or not one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            member = archive.getinfo(MEMBER) if MEMBER in names else None
            header = None if member is None else _header(archive, member)
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise FileFormatError(f"{path} is truncated or no archive: {error}") from error
    if member is None or header is None:
        raise InputError(f"{path} needs an array called vectors; it has {names}")
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError(
            f"{path} is compressed, so that it cannot be mapped into memory; write it "
            f"with numpy.savez, or the vectors with numpy.save"
        )
    check_matrix(header.shape, header.dtype, f"{path}, vectors")
    return MappedVectors(
        os.fspath(path),
        header.shape[1],
        header.shape,
        header.dtype,
        _data_offset(path, member) + header.length,
        header.column_order,
    )


def npz_labels(path: Path) -> NDArray[Any] | None:
    """The array ``labels`` of the archive; None where there is none."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            labels: NDArray[Any] | None = archive.get("labels")
            return labels
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise FileFormatError(f"{path}: labels cannot be read: {error}") from error


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

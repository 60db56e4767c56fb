"""MNIST in its publisher's idx files, compressed or not."""

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import find_root
from gradsnap.data.images import ImageOptions, StoredImages
from gradsnap.errors import FileFormatError, InputError
from gradsnap.strings import PackedStrings

MARK = "train-images*idx3-ubyte*"

FOLDERS = ("MNIST/raw", "mnist", "raw")

UNSIGNED_BYTE = 8
"""What an idx file of bytes has as its third byte."""


def open_mnist(
    root: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """MNIST: 70,000 grey images uint8 (1, 28, 28), of which 10,000 are held out.

    Raises:
        InputError: the files are not there.
        FileFormatError: a file is truncated or is not an idx file.
    """
    base = find_root("mnist", root, FOLDERS, MARK)
    train, train_labels = _part(base, "train")
    test, test_labels = _part(base, "t10k")
    if train.shape[1:] != test.shape[1:]:
        raise FileFormatError(
            f"{base}: training images are {tuple(train.shape[1:])} and test images "
            f"{tuple(test.shape[1:])}"
        )
    pixels = torch.cat([train, test])[:, None]  # (n, 1, 28, 28)
    return Dataset(
        name="mnist",
        items=StoredImages(pixels, options or ImageOptions()),
        names=PackedStrings.of(f"mnist/{row}" for row in range(len(pixels))),
        labels=torch.cat([train_labels, test_labels]).long(),
        classes=tuple("0123456789"),
        held_out=torch.arange(len(pixels)) >= len(train),
    )


def read_idx(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """The array of bytes in an idx file, compressed with gzip or not.

    Raises:
        FileFormatError: another kind of file, or not as long as its header says.
    """
    try:
        with _open(Path(path)) as file:
            shape = _shape(file, path)
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"{path} is truncated or damaged: {error}") from error
    if len(content) != math.prod(shape):
        raise FileFormatError(
            f"{path} is truncated or damaged: its header says {math.prod(shape)} bytes "
            f"of shape {shape}, it holds {len(content)}"
        )
    return np.frombuffer(bytearray(content), dtype=np.uint8).reshape(shape)


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    # gzip's own file is a BinaryIO in all but its declared type.
    return gzip.open(path) if compressed else path.open("rb")  # type: ignore[return-value]


def _shape(file: BinaryIO, path: str | os.PathLike[str]) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise FileFormatError(
            f"{path} is not an idx file of bytes: it begins with "
            f"{magic.hex() or 'nothing'}, expected 000008"
        )
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise FileFormatError(f"{path} is truncated: it ends within its header")
    return tuple(np.frombuffer(sizes, dtype=">u4").tolist())


def _part(base: Path, prefix: str) -> tuple[Tensor, Tensor]:
    """Images (n, height, width) and labels (n,) of the training or test part."""
    images_path = _file(base, f"{prefix}-images*idx3-ubyte*")
    labels_path = _file(base, f"{prefix}-labels*idx1-ubyte*")
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise FileFormatError(
            f"{images_path} has the shape {images.shape} and {labels_path} "
            f"{labels.shape}; expected (n, height, width) and (n,)"
        )
    return torch.from_numpy(images), torch.from_numpy(labels)


def _file(base: Path, pattern: str) -> Path:
    found = sorted(base.glob(pattern))
    if not found:
        raise InputError(f"mnist: there is no {pattern} in {base}; unpack it again")
    return found[0]  # the uncompressed one, where both are there

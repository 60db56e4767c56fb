"""CIFAR-10 in its publisher's binary batches, or in the pickled ones."""

import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import find_root
from gradsnap.data.images import ImageOptions, StoredImages
from gradsnap.data.pickles import read_arrays
from gradsnap.errors import FileFormatError, InputError
from gradsnap.strings import PackedStrings

MARK = "data_batch_1*"

FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar10")

BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

PIXELS = 3 * 32 * 32

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]


def open_cifar10(
    root: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """CIFAR-10: 60,000 images uint8 (3, 32, 32), of which 10,000 are held out.

    Raises:
        InputError: a batch is not there.
        FileFormatError: a batch is truncated, or its pickle holds more than arrays.
    """
    base = find_root("cifar10", root, FOLDERS, MARK)
    batches = [_read_batch(base, name) for name in BATCHES]
    sizes = [len(labels) for _, labels in batches]
    if len(set(sizes)) > 1:
        raise FileFormatError(f"the batches in {base} differ in size: {sizes} images")
    pixels = torch.from_numpy(np.concatenate([pixels for pixels, _ in batches]))
    return Dataset(
        name="cifar10",
        items=StoredImages(pixels.view(-1, 3, 32, 32), options or ImageOptions()),
        names=PackedStrings.of(
            f"{name}/{row}" for name in BATCHES for row in range(sizes[0])
        ),
        labels=torch.from_numpy(np.concatenate([labels for _, labels in batches])),
        classes=CLASSES,
        held_out=torch.arange(len(pixels)) >= 5 * sizes[0],
    )


def _read_batch(base: Path, name: str) -> Batch:
    binary, pickled = base / f"{name}.bin", base / name
    if binary.is_file():
        return _read_binary(binary)
    if pickled.is_file():
        return _read_pickle(pickled)
    raise InputError(f"cifar10: there is no {name} in {base}; unpack it again")


def _read_binary(path: Path) -> Batch:
    content = np.fromfile(path, dtype=np.uint8)
    if not len(content) or len(content) % (1 + PIXELS):
        raise FileFormatError(
            f"{path} is truncated: {len(content)} bytes are not a whole number of "
            f"{1 + PIXELS}-byte records"
        )
    records = content.reshape(-1, 1 + PIXELS)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _read_pickle(path: Path) -> Batch:
    content = read_arrays(path)
    pixels, labels = content.get("data"), content.get("labels")
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.dtype != np.uint8
        or pixels.ndim != 2
        or pixels.shape[1] != PIXELS
    ):
        raise FileFormatError(f"{path} holds no data, uint8 (n, {PIXELS})")
    if not isinstance(labels, list) or not all(type(one) is int for one in labels):
        raise FileFormatError(f"{path} holds no list of whole numbers as labels")
    if len(labels) != len(pixels):
        raise FileFormatError(f"{path} has {len(labels)} labels, {len(pixels)} images")
    return pixels, np.array(labels, dtype=np.int64)

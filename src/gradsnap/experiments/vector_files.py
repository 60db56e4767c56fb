"""Vectors with labels as a file, made once: what heads and coders learn from."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsnap.data import Dataset
from gradsnap.errors import InputError
from gradsnap.files import make_folder, replacing

SAMPLE, SIDE = 64, 32
"""Items that tell data from other data, and the pixels they are looked at."""


def items_fingerprint(dataset: Dataset) -> str:
    """16 digits for the items of a data set and their labels, by a sample of them."""
    sample = torch.linspace(0, len(dataset) - 1, min(len(dataset), SAMPLE)).long()
    if dataset.holds_images:  # files may be of any size
        dataset = dataset.reading(side=SIDE, channels=3)
    items, labels = dataset.batch(sample)
    digest = hashlib.sha256(f"{len(dataset)}".encode())
    for values in (items, labels):
        digest.update(values.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def vector_file(path: Path, dataset: Dataset, make: Callable[[], Tensor]) -> Path:
    """The file of vectors (n, dim) with the labels of a data set, made if not there.

    Args:
        path: an ``.npz``; its name stands for what the vectors are.
        dataset: n labelled items.
        make: gives the vectors.
    """
    if not path.is_file():
        if dataset.labels is None:
            raise InputError(f"{dataset.name} has no labels")
        arrays: dict[str, Any] = {
            "vectors": make().cpu().numpy(),
            "labels": dataset.labels.numpy(),
        }
        if dataset.held_out is not None:
            arrays["held_out"] = dataset.held_out.numpy()
        make_folder(path.parent)
        with replacing(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
    return path

"""Vectors with labels as a file, made once: what heads and coders learn from."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gradsnap.data import Dataset
from gradsnap.data.fingerprint import absorb, items_digest
from gradsnap.errors import InputError
from gradsnap.files import make_folder, replacing

SIDE = 32
"""Pixels that a sample of images is looked at; files may be of any size."""


def items_fingerprint(dataset: Dataset) -> str:
    """16 digits for the items of a data set and their labels."""
    if dataset.holds_images:
        dataset = dataset.reading(side=SIDE, channels=3)
    digest = items_digest(replace(dataset, name=""))  # the same wherever they lie
    if dataset.labels is not None:
        absorb(digest, dataset.labels)
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

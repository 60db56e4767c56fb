"""Labels as every data set gives them, and what is refused."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import InputError

MAX_CLASSES = 1_000_000
"""More classes than this are taken for a mistake, such as item ids read as labels."""


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
        return _numbered(raw, source)
    if raw.ndim == 2 and raw.dtype.kind in "iub":
        return _multi_hot(raw, source)
    raise InputError(
        f"{source}: labels must be integers or strings (n,), or 0 and 1 for each "
        f"label (n, L); got {raw.dtype} of shape {raw.shape}"
    )


def check_labels(labels: Tensor, count: int, num_classes: int, source: str) -> None:
    """Refuses labels that do not fit ``count`` items and ``num_classes`` classes."""
    if len(labels) != count:
        raise InputError(f"{source}: {len(labels)} labels for {count} items")
    if labels.ndim == 2 and labels.dtype == torch.bool:
        if labels.shape[1] != num_classes:
            raise InputError(
                f"{source}: {labels.shape[1]} labels an item for {num_classes} names"
            )
        return
    if labels.ndim != 1 or labels.dtype != torch.int64:
        raise InputError(
            f"{source}: labels must be int64 (n,) or bool (n, L), got {labels.dtype} "
            f"of shape {tuple(labels.shape)}"
        )
    _check_range(int(labels.min()), int(labels.max()), num_classes, source)


def _numbered(raw: NDArray[Any], source: str) -> tuple[Tensor, tuple[str, ...]]:
    if not len(raw):
        raise InputError(f"{source}: there are no labels")
    _check_range(int(raw.min()), int(raw.max()), MAX_CLASSES, source)
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


def _check_range(low: int, high: int, num_classes: int, source: str) -> None:
    if not 0 <= low <= high < num_classes:
        raise InputError(
            f"{source}: labels must lie in 0..{num_classes - 1}, got {low}..{high}"
        )

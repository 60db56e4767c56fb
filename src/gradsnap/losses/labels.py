"""What labels say of pairs of rows: one class each, or several labels each."""

import torch
from torch import Tensor

from gradsnap.errors import InputError


def check_batch(embeddings: Tensor, labels: Tensor) -> None:
    """Refuses what is no batch of embeddings (n, dim) with labels (n,) or (n, L)."""
    if embeddings.ndim != 2 or not embeddings.is_floating_point():
        raise InputError(
            f"expected floating embeddings of shape (n, dim), "
            f"got {embeddings.dtype} of shape {tuple(embeddings.shape)}"
        )
    check_labels(labels, len(embeddings))


def check_labels(labels: Tensor, rows: int, what: str = "embeddings") -> None:
    """Refuses labels that are neither integers (rows,) nor booleans (rows, L)."""
    if labels.shape[:1] != (rows,) or labels.ndim > 2:
        raise InputError(
            f"expected one label for each of {rows} {what}, or one row of them, "
            f"got labels of shape {tuple(labels.shape)}"
        )
    if labels.ndim == 2 and labels.dtype != torch.bool:
        raise InputError(
            f"several labels a row must be booleans (n, labels), got {labels.dtype} "
            f"(labels > 0 makes them)"
        )
    if labels.ndim == 1 and (labels.is_floating_point() or labels.is_complex()):
        raise InputError(
            f"one label a row must be an integer, got {labels.dtype} "
            f"(labels.long() makes it one)"
        )


def shared_labels(labels: Tensor) -> Tensor:
    """How many labels each two rows share, (n, n), float; 0 or 1 for labels (n,)."""
    if labels.ndim == 1:
        return (labels[:, None] == labels).float()
    many_hot = labels.float()
    with torch.autocast(labels.device.type, enabled=False):
        return many_hot @ many_hot.T


def alike_and_unlike(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows share a label and which do not, both (n, n); no row is its own pair.

    Args:
        labels: integers (n,), one class a row, or booleans (n, L), several labels.
    """
    same = shared_labels(labels) > 0
    other = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return same & other, ~same & other

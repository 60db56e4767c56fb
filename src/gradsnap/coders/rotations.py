"""Directions and rotations that several coders learn."""

import torch
from torch import Tensor


def principal_directions(centred: Tensor, count: int) -> Tensor:
    """The ``count`` directions of most variance of centred rows (n, dim), (dim, count).

    Signs are fixed, so that two machines agree: the largest entry is positive.
    """
    values = centred.double()
    _, vectors = torch.linalg.eigh(values.T @ values)  # ascending
    chosen = vectors.flip(1)[:, :count]
    largest = chosen.gather(0, chosen.abs().argmax(dim=0, keepdim=True))
    directions: Tensor = (chosen * largest.sign()).to(centred.dtype)
    return directions


def procrustes(moments: Tensor) -> Tensor:
    """The orthogonal R that maximizes tr(Rᵀ moments); moments and R (dim, dim)."""
    left, _, right = torch.linalg.svd(moments)
    rotation: Tensor = left @ right
    return rotation

"""Directions and rotations that several coders learn."""

import torch
from torch import Tensor


def identity(dim: int) -> Tensor:
    """The rotation (dim, dim) that turns nothing.

    On the meta device, where coders of files are first made, ``torch.eye`` would import
    torch's compiler, which takes more than a second.
    """
    return torch.zeros(dim, dim).fill_diagonal_(1)


def principal_directions(centred: Tensor, count: int) -> Tensor:
    """Directions of most variance of centred rows (n, dim): (dim, count)."""
    values = centred.double()
    _, vectors = eigenvectors(values.T @ values)  # ascending
    return orient(vectors.flip(1)[:, :count]).to(centred.dtype)


def eigenvectors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ascending (n,) and eigenvectors (n, n) of a symmetric matrix.

    Where there are fewer rows than dimensions many eigenvalues are zero, at which the
    solver can fail. The matrix must then have no negative ones: singular vectors do.
    """
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        vectors, values, _ = torch.linalg.svd(matrix)  # largest first
        values, vectors = values.flip(0), vectors.flip(1)
    return values, vectors


def orient(directions: Tensor) -> Tensor:
    """Directions (dim, c), or one (dim,), turned so that the largest entry is positive.

    An eigenvector has no sign of its own: two machines may find opposite ones.
    """
    place = directions.abs().argmax(dim=0, keepdim=True)
    return directions * directions.gather(0, place).sign()


def procrustes(moments: Tensor) -> Tensor:
    """The orthogonal R that maximizes tr(Rᵀ moments); moments and R (dim, dim)."""
    left, _, right = torch.linalg.svd(moments)
    rotation: Tensor = left @ right
    return rotation

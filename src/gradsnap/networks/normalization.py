"""What is done to vectors before a linear layer, so that its rate means the same."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.errors import InputError


class UnitLength(nn.Module):
    """Divides each row by its length; a zero row stays zero."""

    def forward(self, rows: Tensor) -> Tensor:
        """Rows (n, dim) of length 1."""
        return functional.normalize(rows, dim=1)


class MeanLength(nn.Module):
    """Divides all rows by one number, the mean length of those it was fitted to.

    Keeps what the length of a row says. Until it is fitted, rows stay as they are.
    """

    length: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("length", torch.ones(()))

    def fit(self, rows: Tensor) -> None:
        """Takes the mean length of rows (n, dim); 1 where all are zero."""
        mean = rows.norm(dim=1).mean()
        self.length.copy_(mean if mean > 0 else torch.ones_like(mean))

    def forward(self, rows: Tensor) -> Tensor:
        """Rows (n, dim) of length 1 on average."""
        return rows / self.length.to(rows.dtype)


def standardization(dim: int) -> nn.Module:
    """Mean 0 and variance 1 of each dimension, as seen while training."""
    return nn.BatchNorm1d(dim, affine=False)


NORMALIZATIONS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda dim: nn.Identity(),
    "length": lambda dim: UnitLength(),
    "scale": lambda dim: MeanLength(),
    "standard": standardization,
}
"""What may be done to the vectors first, by its short name."""


def build_normalization(name: str, dim: int) -> nn.Module:
    """The normalization of that name for vectors of length ``dim``."""
    if name not in NORMALIZATIONS:
        raise InputError(
            f"normalization must be one of {', '.join(NORMALIZATIONS)}, got {name!r}"
        )
    return NORMALIZATIONS[name](dim)

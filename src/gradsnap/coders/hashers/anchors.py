"""Vectors as their likeness to anchors: what kernel hashers are linear in."""

import torch
from torch import Tensor

from gradsnap.errors import InputError

WIDTH_ROWS = 2000
"""Rows the width of the kernel is measured on."""


def drawn_anchors(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """So many different rows of x (n, dim), or all if there are fewer."""
    return x[torch.randperm(len(x), generator=generator)[:count].to(x.device)]


def kernel_width(x: Tensor, anchors: Tensor) -> float:
    """Mean squared distance of rows to anchors: the scale at which they differ."""
    some = x[:: max(1, len(x) // WIDTH_ROWS)]
    return max(float(torch.cdist(some, anchors).square().mean()), 1e-12)


def likeness(x: Tensor, anchors: Tensor, width: float) -> Tensor:
    """``exp(−‖x − a‖² / width)`` of rows (n, dim) and anchors (m, dim): (n, m)."""
    squares = torch.addmm(anchors.square().sum(dim=1), x, anchors.T, alpha=-2)
    squares += x.square().sum(dim=1, keepdim=True)
    return squares.clamp_min_(0).mul_(-1 / width).exp_()


def check_anchors(count: int) -> None:
    """Refuses no anchors."""
    if count < 1:
        raise InputError(f"anchors must be at least 1, got {count}")

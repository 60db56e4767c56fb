"""Rows side by side, so that registers multiply many of them by one query at once.

Products of a query are added up in the order of dimension, by the compiled loops and by
plain torch, which stands in for them: they agree to the bit, and a query has the same
products alone and among others. A matrix product promises neither.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gradsnap.compiled import kernels

Array = NDArray[Any]

TILE = 256
"""Rows whose products are added up together."""


def in_tiles(rows: Tensor) -> Array:
    """Rows (n, dim), ``TILE`` side by side: (⌈n / TILE⌉, dim, TILE), zeros behind."""
    wide = functional.pad(rows.detach(), (0, 0, 0, -len(rows) % TILE)).cpu()
    tiles: Array = (
        wide.view(-1, TILE, rows.shape[1]).transpose(1, 2).contiguous().numpy()
    )
    return tiles


def less_products(start: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    """``start − x rowsᵀ`` in plain torch: (q, n) of x (q, dim) and rows (n, dim)."""
    for j in range(x.shape[1]):
        start = start - x[:, j, None] * rows[:, j]
    return start


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """``x @ rotation``, of x (q, dim), in single precision on a CPU."""
    compiled = kernels("gradsnap.coders.quantizers.tiles_compiled")
    if compiled is None:
        return less_products(torch.zeros_like(x), x, -rotation.T)
    turned = x.new_empty(x.shape)
    rows = (one.detach().contiguous().numpy() for one in (x, rotation))
    compiled.rotate(*rows, turned.numpy())
    return turned

"""Which centroids are nearest to a query.

A compiled loop is as fast as torch's steps for many queries, and takes a third of their
time for a handful. Plain torch, which stands in for it, adds in the same order: both
agree to the bit, and a query finds the same lists alone and among others.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gradsnap.coders.quantizers.block_tables import can_loop
from gradsnap.coders.quantizers.tiles import in_tiles, less_products
from gradsnap.compiled import kernels, spread

Array = NDArray[Any]

FEWEST = 8
"""Rows a thread works on, at least."""

MOST_SMALLEST = 4096
"""Heaps of more are slower than sorting all."""


def is_ordered(x: Tensor, count: int) -> bool:
    """Whether queries x (q, …) are compared in order of dimension to find lists.

    They are in single precision on a CPU. The one nearest list of many rows, which are
    added, is found by a matrix product.
    """
    several = 1 < count <= MOST_SMALLEST or can_loop(x)
    return several and x.dtype is torch.float32 and x.is_cpu


def is_plain(x: object, dim: int) -> TypeGuard[Tensor]:
    """Whether a kernel can read x as it is: float32 (q, dim) on a CPU, q ≥ 1."""
    if not isinstance(x, Tensor) or x.dtype is not torch.float32 or x.ndim != 2:
        return False
    count, length = x.shape
    return count > 0 and length == dim and x.is_cpu


class Centroids(NamedTuple):
    """Centroids as they are compared with queries.

    The score of a centroid c for a query x is ``‖c‖² / 2 − ⟨x, c⟩``: half the squared
    distance less what all centroids share.
    """

    rows: Tensor
    """(n, dim)."""
    halves: Tensor
    """Half the squared norms, (n,)."""
    tiles: Array
    """The rows as in ``in_tiles``, (t, dim, TILE)."""
    padded: Array
    """``halves`` with infinity for the padding, (t · TILE,)."""

    @classmethod
    def of(cls, rows: Tensor) -> "Centroids":
        """What is compared of rows (n, dim)."""
        rows = rows.detach()
        halves = rows.square().sum(dim=1) / 2
        tiles = in_tiles(rows)
        more = tiles.shape[0] * tiles.shape[2] - len(rows)
        padded = functional.pad(halves, (0, more), value=torch.inf).cpu()
        return cls(rows, halves, tiles, padded.numpy())

    def nearest(self, x: Tensor, count: int) -> Tensor:
        """The nearest centroids of x (q, dim), nearest first: int64 (q, count)."""
        if not is_ordered(x, count):
            scores = torch.addmm(self.halves, x, self.rows.T, alpha=-1)
            return smallest(scores, count)
        compiled = kernels("gradsnap.index.probing_compiled")
        if compiled is None or count > MOST_SMALLEST:
            start = self.halves.expand(len(x), -1)
            return smallest(less_products(start, x, self.rows), count)
        values = x.new_empty(len(x), count)
        chosen = torch.empty(len(x), count, dtype=torch.int64)

        def work(rows: Array, values: Array, chosen: Array) -> None:
            found = self.tiles, self.padded, values, chosen
            compiled.nearest_centroids(rows, *found)

        _by_rows(work, x.contiguous(), values, chosen)
        return chosen


def smallest(scores: Tensor, count: int) -> Tensor:
    """Columns of the smallest scores of each row, ascending, ties by column.

    Args:
        scores: (q, n), float32 or float64.
        count: how many, at most n.

    Returns:
        int64 (q, count).
    """
    cpu = scores.device.type == "cpu" and count <= MOST_SMALLEST
    compiled = kernels("gradsnap.index.probing_compiled") if cpu else None
    if compiled is None:
        return scores.argsort(dim=1, stable=True)[:, :count]
    values = scores.new_empty(len(scores), count)
    chosen = torch.empty(len(scores), count, dtype=torch.int64)
    _by_rows(compiled.smallest, scores, values, chosen)
    return chosen


def can_pair(x: Tensor) -> bool:
    """Whether ``nearest_pairs`` is for rows like x: in single precision on a CPU."""
    plain = x.dtype == torch.float32 and x.device.type == "cpu"
    return plain and kernels("gradsnap.index.probing_compiled") is not None


def nearest_pairs(tables: Tensor, count: int) -> Tensor:
    """Pairs of codewords with the smallest sums, the nearest first.

    Args:
        tables: of two codebooks, not negative, float32 (q, 2, K).
        count: how many, at most K².

    Returns:
        ``a · K + b``, int64 (q, count).
    """
    compiled: Any = kernels("gradsnap.index.probing_compiled")
    chosen = torch.empty(len(tables), count, dtype=torch.int64)
    _by_rows(compiled.nearest_pairs, tables.contiguous(), chosen)
    return chosen


def _by_rows(run: Callable[..., None], *tensors: Tensor) -> None:
    """Calls a kernel on tensors (q, …), some rows on each thread."""
    arrays = [one.numpy() for one in tensors]
    steps = max(FEWEST, -(-len(arrays[0]) // torch.get_num_threads()))
    spread(
        lambda start: run(*(one[start : start + steps] for one in arrays)),
        range(0, len(arrays[0]), steps),
    )

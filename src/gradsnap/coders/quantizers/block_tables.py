"""Tables of queries: squared distances, block by block, to codewords.

For many queries torch's matrix product is best. For one, its ten steps take longer than
the numbers do; a compiled loop takes a tenth of that, and plain torch, which stands in
for it, adds in the same order, so that both agree to the bit.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.coders.quantizers.tiles import rotated
from gradsnap.compiled import kernels

FEW = 8
"""From so many queries on a matrix product is faster."""


class Blocks(NamedTuple):
    """What tables are made of, in the order of dimension throughout."""

    rows: Tensor
    """(q, M · width), or (q, dim) that are rotated first."""
    codebooks: Tensor
    """(M, K, width)."""
    rotation: Tensor | None = None
    """(dim, dim)."""

    def tables(self) -> Tensor:
        """Squared distances of blocks to codewords, (q, M, K)."""
        if self.rotation is None:
            return block_tables(self.rows, self.codebooks)
        return block_tables(rotated(self.rows, self.rotation), self.codebooks)


def can_loop(queries: Tensor) -> bool:
    """Whether tables are made by ``block_tables``: few queries, on a CPU."""
    plain = queries.dtype in (torch.float32, torch.float64)
    return queries.shape[0] < FEW and plain and queries.device.type == "cpu"


def block_tables(rows: Tensor, codebooks: Tensor) -> Tensor:
    """Squared distances of the blocks of rows to the codewords of their codebooks.

    Args:
        rows: of q queries, (q, M · width).
        codebooks: (M, K, width).

    Returns:
        ``Σⱼ (xⱼ − cⱼ)²``, added in the order of j, (q, M, K).
    """
    compiled = kernels("gradsnap.coders.quantizers.block_tables_compiled")
    if compiled is None:
        return _plain(rows, codebooks)
    entries = rows.new_empty(len(rows), *codebooks.shape[:2])
    compiled.block_tables(
        rows.detach().contiguous().numpy(),
        codebooks.detach().contiguous().numpy(),
        entries.numpy(),
    )
    return entries


def _plain(rows: Tensor, codebooks: Tensor) -> Tensor:
    """The same in torch."""
    blocks = rows.view(len(rows), len(codebooks), -1)  # (q, M, width)
    total = rows.new_zeros(len(rows), *codebooks.shape[:2])
    for j in range(blocks.shape[2]):
        apart = blocks[..., j, None] - codebooks[..., j]  # (q, M, K)
        total += apart * apart
    return total

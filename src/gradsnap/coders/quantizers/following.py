"""One streamed step of a product quantizer: a batch's statistics, and the followers.

On a CPU in single precision both are compiled, as a batch's numbers take less time than
the steps of torch; everywhere else ``kmeans`` serves. Both give the same, to the bit.
"""

from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from gradsnap.coders.quantizers.kmeans import (
    DEAD_SHARE,
    accumulate,
    follow,
    split_dead,
)
from gradsnap.compiled import kernels


def statistics(rows: Tensor, codes: Tensor, size: int, width: int) -> Tensor:
    """How many rows fell to each codeword, and their sums: (M, K, 1 + width).

    Args:
        rows: blocks side by side, (n, M · width).
        codes: of the rows, (n, M), int64.
        size: K, codewords in a codebook.
        width: of a block.
    """
    compiled = _kernels(rows)
    if compiled is None:
        blocks = rows.view(*codes.shape, width).transpose(0, 1)  # (M, n, width)
        counts, sums = accumulate(blocks, codes.T, size)
        return torch.cat([counts[..., None], sums], dim=2)
    batch = rows.new_zeros(codes.shape[1], size, 1 + width)
    compiled.add_rows(
        rows.contiguous().numpy(), codes.contiguous().numpy(), batch.numpy()
    )
    return batch


def follow_batch(
    codebooks: Tensor, counts: Tensor, batch: Tensor, decay: float
) -> None:
    """Moves codebooks (M, K, width) and counts (M, K) by a batch's statistics."""
    compiled = _kernels(codebooks, counts, batch)
    if compiled is None:
        follow(codebooks, counts, batch[..., 0], batch[..., 1:], decay)
        return
    words, weights = codebooks.detach(), counts.detach()
    dead = compiled.follow(
        words.numpy(), weights.numpy(), batch.numpy(), np.float32(decay), DEAD_SHARE
    )
    increment_version((codebooks, counts))  # torch has not seen it
    if dead:
        split_dead(words, weights, DEAD_SHARE)


def _kernels(*tensors: Tensor) -> ModuleType | None:
    for one in tensors:
        if not (one.is_cpu and one.dtype is torch.float32 and one.is_contiguous()):
            return None
    return kernels("gradsnap.coders.quantizers.following_compiled")

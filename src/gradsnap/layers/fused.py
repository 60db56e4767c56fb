"""The layer's backward in one product and one compiled pass, where that can be done.

For product codes in single precision on a CPU, and the layer's own rule. What comes out
is what ``GradientSnapping`` finds step by step in torch, up to rounding, in a fraction
of the time: candidates are neither sorted nor written down.
"""

import itertools
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.quantizers import ProductQuantizer, Quantizer
from gradsnap.coders.quantizers.block_tables import FEW
from gradsnap.coders.quantizers.candidates import ROWS_PER_THREAD
from gradsnap.coders.quantizers.kmeans import half_distances
from gradsnap.coders.quantizers.quantizer import CHUNK_ENTRIES, chunks
from gradsnap.compiled import kernels, spread
from gradsnap.layers.rules import Rule, SnappingRule, gaussian

AT_ONCE = 256
"""Products of blocks as wide as this are not added up in parts."""


class Fused(NamedTuple):
    """What became of a batch."""

    snapped: Tensor
    """Δy, (n, dim)."""
    conformity: Tensor
    """Cosine between the gradient and y − c*, (n,)."""
    distance: Tensor
    """Distance to the chosen codeword, (n,)."""
    accepted: Tensor
    """Whether the row was snapped, (n,), bool."""
    nearest: Tensor
    """The nearest codeword of each block, (n, num_codebooks), int64."""


def can_fuse(
    rule: Rule, quantizer: Quantizer, gradient: Tensor, embeddings: Tensor
) -> bool:
    """Whether ``fused`` serves for gradient and embeddings, (n, dim) each."""
    if type(rule) is not SnappingRule or rule.falloff is not gaussian:
        return False
    if type(quantizer) is not ProductQuantizer or len(gradient) < FEW:
        return False
    state = quantizer._buffers  # at once: the module itself looks elsewhere first
    for one in (gradient, embeddings, state["codebooks"]):
        if one is None or one.dtype is not torch.float32 or not one.is_cpu:
            return False
    run = _kernels()
    if run is None or not state["fitted"]:
        return False
    squared: bool = run.can_be_squared(_array(gradient), _array(embeddings))
    return squared


def _array(rows: Tensor) -> NDArray[Any]:
    """The rows (n, d) as they lie in memory, copied only if they have gaps."""
    if rows.requires_grad:
        rows = rows.detach()
    return rows.contiguous().numpy()


def _kernels() -> ModuleType | None:
    return kernels("gradsnap.layers.snapping_compiled")


def fused(
    rule: SnappingRule,
    quantizer: ProductQuantizer,
    gradient: Tensor,
    embeddings: Tensor,
    neighbors: int,
) -> Fused:
    """Snaps the gradient (n, dim) of embeddings (n, dim).

    Args:
        rule: λ, and the share where snapping is rejected.
        quantizer: fitted.
        gradient: of the loss.
        embeddings: where it was taken.
        neighbors: T, how many candidates; at most all codewords there are.
    """
    size = quantizer.num_codebooks * quantizer.codebook_size
    if len(gradient) * size <= CHUNK_ENTRIES:  # a training batch: spare it the rest
        return _of_chunk(rule, quantizer, gradient, embeddings, neighbors)
    given = zip(chunks(gradient, size), chunks(embeddings, size), strict=True)
    parts = [_of_chunk(rule, quantizer, *pair, neighbors) for pair in given]
    return Fused(*map(torch.cat, zip(*parts, strict=True)))


def _of_chunk(
    rule: SnappingRule,
    quantizer: ProductQuantizer,
    gradient: Tensor,
    embeddings: Tensor,
    neighbors: int,
) -> Fused:
    """The same for so few rows that their tables can be held."""
    y, codebooks = quantizer._in_blocks(embeddings.detach().contiguous())
    g, _ = quantizer._in_blocks(gradient)
    shape = len(y), *codebooks.shape[::2]  # (n, M, width)
    products, norms = _products(y.view(shape).transpose(0, 1), codebooks.detach())
    rows = products.numpy(), norms.numpy(), y.numpy(), _array(g), _array(codebooks)
    done = _empty(y.shape, len(codebooks))
    run, strengths = _kernels().snap_rows, _strengths(rule)  # type: ignore[union-attr]
    spread(lambda span: run(rows, done, span, neighbors, strengths), _spans(len(y)))
    found = tuple(map(torch.from_numpy, done))
    if y.shape[1] > quantizer.dim:
        return Fused(quantizer._join(found[0].view(shape)), *found[1:])
    return Fused(*found)


def _products(blocks: Tensor, codebooks: Tensor) -> tuple[Tensor, Tensor]:
    """⟨y, c⟩ (M, n, K) and ‖c‖² (M, K), which give ‖c‖²/2 − ⟨y, c⟩.

    That is what ``assign`` takes the least of, to the bit, so that codes that are found
    here are its own. Products of long blocks are added up in parts, the norms first:
    there the half distances are its very own, and the norms zero.
    """
    norms = (codebooks * codebooks).sum(dim=2)  # faster than their squares
    if codebooks.shape[2] <= AT_ONCE:
        return torch.bmm(blocks, codebooks.transpose(1, 2)), norms
    scores = half_distances(blocks, codebooks, norms[:, None])
    return scores.neg_(), norms.zero_()


def _empty(shape: tuple[int, ...], num_codebooks: int) -> tuple[NDArray[Any], ...]:
    """Room for all that is ``Fused``, for rows of the shape (n, M · width)."""
    count = shape[0]
    return (
        np.empty(shape, np.float32),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
        np.empty(count, np.bool_),
        np.empty((count, num_codebooks), np.int64),
    )


def _strengths(rule: SnappingRule) -> tuple[np.float32, np.float32]:
    """λ, and the share of the gradient where snapping is rejected."""
    rejected = rule.rejected_strength
    share = rule.strength if rejected is None else rejected
    return np.float32(rule.strength), np.float32(share)


def _spans(rows: int) -> list[tuple[int, int]]:
    """The rows of each thread: from, and up to."""
    parts = max(1, min(torch.get_num_threads(), rows // ROWS_PER_THREAD))
    ends = [rows * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(ends))

"""Codebooks that reconstruct rows best from codes that are given.

With B the one-hot codes (n, M·K), of which a row holds M ones, codebooks C solve

    (BᵀB + ridge) C = BᵀX.
"""

import torch
from torch import Tensor

from gradsnap.coders.quantizers.codeword_tables import sum_codewords
from gradsnap.coders.quantizers.kmeans import accumulate

RIDGE = 1e-2
"""Added to each codeword's count; codebooks are only determined up to shifts."""

MOST_AT_ONCE = 2048
"""Codewords up to which the equations are solved at once: that takes time with their
cube, where going down-hill takes time with the rows."""

STEPS = 40
"""Down-hill, at most."""

CLOSE = 1e-8
"""Share of the squared residual at which the steps end."""


def least_squares(x: Tensor, codes: Tensor, size: int) -> Tensor:
    """The codebooks (M, K, dim) that reconstruct x (n, dim) from its codes best.

    Args:
        x: (n, dim).
        codes: (n, M), int64.
        size: K, codewords in a codebook.
    """
    few = codes.shape[1] * size <= MOST_AT_ONCE
    return solved_at_once(x, codes, size) if few else solved_downhill(x, codes, size)


def solved_at_once(x: Tensor, codes: Tensor, size: int) -> Tensor:
    """By Cholesky's factors of BᵀB, in double precision: codebooks (M, K, dim)."""
    meet = pair_counts(codes, size)
    meet.diagonal().add_(RIDGE)
    sums = _sums(x, codes, size).flatten(0, 1).double()
    solved = torch.cholesky_solve(sums, torch.linalg.cholesky(meet))
    return solved.to(x.dtype).view(codes.shape[1], size, x.shape[1])


def solved_downhill(x: Tensor, codes: Tensor, size: int) -> Tensor:
    """By conjugate gradients, dimension by dimension side by side: (M, K, dim).

    BᵀB is never formed: B adds up codewords, and Bᵀ adds up rows.
    """
    counts = code_counts(codes, size, x.dtype)[..., None] + RIDGE  # (M, K, 1)
    words = x.new_zeros(codes.shape[1], size, x.shape[1])
    left = _sums(x, codes, size)  # what the equations leave, (M, K, dim)
    way = left / counts
    energy = first = _products(left, way)
    for _ in range(STEPS):
        change = _sums(sum_codewords(codes, way), codes, size) + RIDGE * way
        far = energy / _positive(_products(way, change))
        words += far * way
        left -= far * change
        down = left / counts
        before, energy = energy, _products(left, down)
        if energy.sum() <= CLOSE * first.sum():
            break
        way = down + energy / _positive(before) * way
    return words


def code_counts(codes: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """How many of the codes (n, M) use each codeword, (M, K)."""
    counts = torch.zeros(codes.shape[1], size, dtype=dtype, device=codes.device)
    ones = torch.ones_like(codes, dtype=dtype).T
    return counts.scatter_add_(1, codes.T, ones)


def pair_counts(codes: Tensor, size: int) -> Tensor:
    """BᵀB of the one-hot codes B (n, M·K): how often two codewords meet."""
    rows, num_codebooks = codes.shape
    meet = codes.new_zeros(
        num_codebooks * size, num_codebooks * size, dtype=torch.float64
    )
    one = meet.new_ones(()).expand(rows)
    for i in range(num_codebooks):
        for j in range(num_codebooks):
            at = (i * size + codes[:, i]) * meet.shape[1] + j * size + codes[:, j]
            meet.view(-1).scatter_add_(0, at, one)
    return meet


def _sums(x: Tensor, codes: Tensor, size: int) -> Tensor:
    """Bᵀx: the sum of the rows x (n, dim) that use each codeword, (M, K, dim)."""
    each = [accumulate(x[None], column[None], size)[1] for column in codes.T]
    return torch.cat(each)


def _products(a: Tensor, b: Tensor) -> Tensor:
    """Inner products (dim,) of codebooks (M, K, dim), dimension by dimension."""
    return (a * b).sum(dim=(0, 1))


def _positive(values: Tensor) -> Tensor:
    """Values that can be divided by; a dimension that is solved has zeros."""
    return values.clamp_min(torch.finfo(values.dtype).tiny)

"""Lower bounds on what codewords bring, for a beam that needs few inner products.

Most of what codewords differ in lies in few directions. An inner product with a
codeword is computed in these alone; of the rest it is known that it is at most the
product of the two lengths (Cauchy-Schwarz). The beam computes the whole inner product
of those codewords alone that may be among the best, so its codes are those of whole
tables, but for ties that are rounded otherwise.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.coders.quantizers.codeword_tables import word_norms

DIRECTIONS = 110
"""With the two columns beside them a multiple of 16, which products like."""

POWER_STEPS = 3

LEAST_GAIN = 3
"""Bounds take this many times less work than tables, or are not made at all."""

MOST_LEFT = 0.025
"""Share of a codebook's variance that the directions may leave out, in any of them: the
last codebooks are what residuals are left to, and these have many directions."""

ROUNDING = 16
"""Lengths are taken longer by so many roundings, so that bounds stay bounds."""


class Bounds(NamedTuple):
    """What lower bounds are made of."""

    directions: Tensor
    """Orthonormal columns, and two of zeros, (dim, D + 2)."""
    words: Tensor
    """Codewords in these directions, their length outside, their norm (D + 2, M·K)."""
    codebooks: Tensor
    """(M, K, dim)."""
    norms: Tensor
    """Squared norms of the codewords, (M, K)."""

    def lower(self, x: Tensor) -> Tensor:
        """At most ``‖c‖² − 2⟨x, c⟩`` for rows x (n, dim) and codewords, (n, M, K)."""
        inside = x @ self.directions  # (n, D + 2)
        inside[:, -2] = _outside(x, inside)
        inside[:, -1] = 1
        return (inside @ self.words).view(len(x), *self.norms.shape)


def bounds_of(codebooks: Tensor) -> Bounds | None:
    """Bounds for codebooks (M, K, dim); None where they would not pay."""
    words = codebooks.flatten(0, 1)
    count, dim = words.shape
    if LEAST_GAIN * (DIRECTIONS + 2) * (count + dim) > count * dim:
        return None
    directions = leading_directions(words, DIRECTIONS)
    inside = words @ directions
    spread = codebooks - codebooks.mean(dim=1, keepdim=True)
    left = spread - (spread @ directions) @ directions.T
    shares = left.square().sum(dim=(1, 2)) / spread.square().sum(dim=(1, 2))
    if shares.max() > MOST_LEFT:
        return None
    norms = word_norms(codebooks)
    columns = [inside, _outside(words, inside)[:, None], -0.5 * norms.view(-1, 1)]
    return Bounds(
        torch.cat([directions, directions.new_zeros(dim, 2)], dim=1),
        (-2 * torch.cat(columns, dim=1)).T.contiguous(),
        codebooks,
        norms,
    )


def leading_directions(words: Tensor, count: int) -> Tensor:
    """Nearly the principal directions of words (n, dim), by power steps: (dim, count).

    Any orthonormal columns give true bounds; these give close ones, and take a small
    part of the time of an eigenvalue decomposition.
    """
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(words.shape[1], count, generator=generator)
    found: Tensor = start.to(words)
    for _ in range(POWER_STEPS):
        found = torch.linalg.qr(words.T @ (words @ found)).Q
    return found.contiguous()


def _outside(rows: Tensor, inside: Tensor) -> Tensor:
    """At least the length (n,) of rows (n, dim) outside of the directions."""
    whole = torch.linalg.vector_norm(rows, dim=1).square_()
    within = torch.linalg.vector_norm(inside, dim=1).square_()
    slack = ROUNDING * torch.finfo(rows.dtype).eps * whole
    length: Tensor = (whole - within).clamp_min_(0).add_(slack).sqrt_()
    return length

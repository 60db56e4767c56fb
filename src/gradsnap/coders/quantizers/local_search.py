"""Codes by local search: one codebook at a time, with exchanges in between."""

import torch
from torch import Tensor

from gradsnap.coders.quantizers.codeword_tables import pair_sums
from gradsnap.coders.quantizers.kmeans import argmin_

EXCHANGED = 4
"""In how many codebooks a round of local search exchanges the codeword."""


class Energy:
    """Squared distance, less ``‖x‖²``, of every code a chunk of rows may take.

    Args:
        unaries: ``unary_tables``, (n, M, K).
        pairs: ``pair_tables``, (M, M·K, K).
    """

    def __init__(self, unaries: Tensor, pairs: Tensor) -> None:
        self.unaries = unaries
        self.pairs = pairs

    def scores(self, codes: Tensor, m: int) -> Tensor:
        """Energy of codes (n, M) for each choice of codeword m, up to a shift: (n, K).

        The result is the caller's to overwrite.
        """
        return pair_sums(codes, self.pairs, m).add_(self.unaries[:, m])

    def total(self, codes: Tensor) -> Tensor:
        """Energy of codes (n, M): (n,)."""
        own = self.unaries.gather(2, codes[..., None]).sum(dim=(1, 2))
        return own + self.cross(codes)

    def cross(self, codes: Tensor) -> Tensor:
        """Cross term of codes (n, M): (n,)."""
        size = self.unaries.shape[2]
        total = torch.zeros_like(self.unaries[:, 0, 0])
        for m in range(1, codes.shape[1]):
            for j in range(m):
                total += self.pairs[m][codes[:, j] + j * size, codes[:, m]]
        return total

    def better(self, old: Tensor, new: Tensor) -> Tensor:
        """Row by row, whichever codes (n, M) have less energy."""
        gain = self.total(new) < self.total(old)
        return new.where(gain[:, None], old)


def icm(energy: Energy, codes: Tensor, sweeps: int = 4) -> Tensor:
    """Iterated conditional modes: each codebook its best codeword given the others."""
    codes = codes.clone()
    for _ in range(sweeps):
        for m in range(codes.shape[1]):
            codes[:, m] = argmin_(energy.scores(codes, m))
    return codes


def local_search(energy: Energy, codes: Tensor, rounds: int, seed: int) -> Tensor:
    """Exchanges some codewords, runs ICM, keeps what is better; and again.

    Args:
        energy: of the rows.
        codes: where to start, (n, M).
        rounds: of exchange and ICM.
        seed: of the exchanges.

    Returns:
        Codes (n, M), nowhere worse than the given ones.
    """
    generator = torch.Generator().manual_seed(seed)
    codes = energy.better(codes, icm(energy, codes))
    num_codebooks, size = energy.unaries.shape[1:]
    for _ in range(rounds if num_codebooks > 1 else 0):
        other = _exchange(codes, size, generator)
        codes = energy.better(codes, icm(energy, other))
    return codes


def _exchange(codes: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Other codewords in up to ``EXCHANGED`` codebooks of codes (n, M).

    Which ones is a function of the row's own code, with numbers drawn once for all
    rows: rows get different exchanges, and none depends on the rows beside it.
    """
    num_codebooks = codes.shape[1]
    shifts = torch.randint(1, size, (num_codebooks,), generator=generator)
    factors = torch.randint(0, size, (num_codebooks,), generator=generator) | 1
    order = torch.randperm(num_codebooks, generator=generator)
    kept = torch.ones(num_codebooks, dtype=torch.bool)
    kept[order[:EXCHANGED]] = False
    shifts, factors, kept = (t.to(codes.device) for t in (shifts, factors, kept))
    mixed = (codes + shifts + factors * codes.roll(1, dims=1)).remainder_(size)
    return codes.where(kept, mixed)

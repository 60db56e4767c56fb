"""Codes by local search: one codebook at a time, with exchanges in between."""

import torch
from torch import Tensor

from gradsnap.quantizers.kmeans import argmin_
from gradsnap.quantizers.summed import pair_sums


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

    The exchanges are drawn once for all rows, so that a row's code does not depend
    on the rows beside it.

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
        shifts = torch.randint(1, size, (num_codebooks,), generator=generator)
        order = torch.randperm(num_codebooks, generator=generator)
        shifts[order[max(1, num_codebooks // 2) :]] = 0
        exchanged = (codes + shifts.to(codes.device)).remainder_(size)
        codes = energy.better(codes, icm(energy, exchanged))
    return codes

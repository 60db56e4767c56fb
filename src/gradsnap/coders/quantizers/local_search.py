"""Codes by local search: one codebook at a time, with exchanges in between."""

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from gradsnap.coders.quantizers.codeword_tables import pair_sums
from gradsnap.coders.quantizers.kmeans import argmin_
from gradsnap.compiled import kernels, spread

EXCHANGED = 4
"""In how many codebooks a round of local search exchanges the codeword."""

SWEEPS = 4
"""Of ICM, at most, in each round."""

ROWS_PER_THREAD = 64


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
        entries = self.unaries.gather(2, codes[..., None])[..., 0]
        own = entries[:, 0]
        for m in range(1, codes.shape[1]):
            own = own + entries[:, m]  # in the kernel's order
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


def icm(energy: Energy, codes: Tensor, sweeps: int = SWEEPS) -> Tensor:
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
    codes = energy.better(codes, icm(energy, codes))
    num_codebooks, size = energy.unaries.shape[1:]
    for turn in zip(*exchanges(rounds, num_codebooks, size, seed), strict=True):
        codes = energy.better(codes, icm(energy, _exchanged(codes, size, turn)))
    return codes


def compiled_search(energy: Energy, codes: Tensor, rounds: int, seed: int) -> Tensor:
    """``local_search`` by the compiled kernel, for rows ``can_compile`` accepts."""
    run: Callable[..., None] = _kernels().local_search  # type: ignore[union-attr]
    unaries, pairs, codes = energy.unaries, energy.pairs.numpy(), codes.clone()
    drawn = exchanges(rounds, unaries.shape[1], unaries.shape[2], seed)
    turns = tuple(part.numpy() for part in drawn)
    parts = max(1, min(torch.get_num_threads(), len(codes) // ROWS_PER_THREAD))
    jobs = list(
        zip(unaries.tensor_split(parts), codes.tensor_split(parts), strict=True)
    )
    spread(lambda job: run(job[0].numpy(), pairs, turns, SWEEPS, job[1].numpy()), jobs)
    return codes


def can_compile(x: Tensor) -> bool:
    """Whether codes of rows like x (n, dim) are searched by the kernel."""
    plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return plain and _kernels() is not None


def _kernels() -> ModuleType | None:
    return kernels("gradsnap.coders.quantizers.local_search_compiled")


Exchanges = tuple[Tensor, Tensor, Tensor]


def exchanges(rounds: int, num_codebooks: int, size: int, seed: int) -> Exchanges:
    """What local search exchanges, drawn once for all rows.

    Returns:
        Of each round and codebook, (rounds, M): a shift and a factor, by which another
        codeword is found, and whether the codeword is kept instead.
    """
    generator = torch.Generator().manual_seed(seed)
    rounds = rounds if num_codebooks > 1 else 0
    shape = (rounds, num_codebooks)
    shifts, factors = (torch.empty(shape, dtype=torch.int64) for _ in range(2))
    kept = torch.ones(shape, dtype=torch.bool)
    for turn in range(rounds):
        shifts[turn].random_(1, size, generator=generator)
        factors[turn].random_(0, size, generator=generator).bitwise_or_(1)
        order = torch.randperm(num_codebooks, generator=generator)
        kept[turn, order[:EXCHANGED]] = False
    return shifts, factors, kept


def _exchanged(codes: Tensor, size: int, turn: tuple[Tensor, ...]) -> Tensor:
    """Other codewords in up to ``EXCHANGED`` codebooks of codes (n, M).

    Which ones is a function of the row's own code, with numbers drawn once for all
    rows: rows get different exchanges, and none depends on the rows beside it.
    """
    shifts, factors, kept = (drawn.to(codes.device) for drawn in turn)
    mixed = (codes + shifts + factors * codes.roll(1, dims=1)).remainder_(size)
    return codes.where(kept, mixed)

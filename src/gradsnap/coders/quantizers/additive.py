"""Additive quantization: local search for codes, least squares for codebooks."""

from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.quantizers.beam import searched
from gradsnap.coders.quantizers.codeword_tables import (
    pair_tables,
    unary_tables,
    word_norms,
)
from gradsnap.coders.quantizers.least_squares import least_squares
from gradsnap.coders.quantizers.local_search import (
    Energy,
    can_compile,
    compiled_search,
    local_search,
)
from gradsnap.coders.quantizers.quantizer import chunks
from gradsnap.coders.quantizers.residual import GeneralizedResidualQuantizer, start_of
from gradsnap.coders.quantizers.shrinking import shrink
from gradsnap.coders.quantizers.summed import BeamOptions, SummedQuantizer
from gradsnap.progress import track

NOISE = 2.0
"""First noise on each of M codewords, in 1/M of what the start leaves of a row."""

TRAINING_ROUNDS = 8
"""Rounds of local search in each iteration of ``fit``."""

SETTLING_STEPS = 2
"""Iterations without noise at the end of ``fit``."""

SHRINKING_SWEEPS = 1
"""More would win little on other rows, and cost more on the training rows."""


class AdditiveQuantizer(SummedQuantizer):
    """AQ (Babenko & Lempitsky 2014), searched locally (Martinez et al. 2018, LSQ++).

    Codes start from a beam search and are improved by local search. Codebooks are the
    ridge least squares solution for the codes; while fitting, ever less noise is added
    to them before codes are searched, which leaves poor minima behind. What is found so
    is kept only if it beats the generalized residual quantizer it starts from. At the
    end codewords are drawn to their centre as far as their rows are few.

    Args:
        dim: length of a vector.
        num_codebooks: codewords added up for one vector.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random.
        beam_size: partial codes kept where the search starts.
        iterations: of codes and codebooks in ``fit``.
        rounds: of exchange and ICM in ``encode``.
    """

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        iterations: int = 25,
        rounds: int = 20,
        **beam: Unpack[BeamOptions],
    ) -> None:
        super().__init__(dim, num_codebooks, codebook_size, **beam)
        self.iterations = iterations
        self.rounds = rounds

    def _learn(self, x: Tensor) -> None:
        first = start_of(GeneralizedResidualQuantizer, self, x)._encode(x)
        codes = min(
            first, self._anneal(x, first), key=lambda found: self._solve(x, found)
        )
        for step in range(SETTLING_STEPS):
            self._solve(x, codes)
            codes = self._search(x, codes, TRAINING_ROUNDS, seed=self.seed + step)
        self._solve(x, codes)
        self.counts.copy_(shrink(x, codes, self.codebooks, SHRINKING_SWEEPS))

    def _anneal(self, x: Tensor, codes: Tensor) -> Tensor:
        """Codes (n, M) after searches in codebooks with ever less noise."""
        self._solve(x, codes)
        left = (x - self._decode(codes)).std(dim=0, correction=0)
        spread = NOISE * left / self.num_codebooks
        generator = self._generator()
        for step in track(range(self.iterations), "fitting codebooks"):
            self._solve(x, codes)
            heat = (1 - (step + 1) / self.iterations) ** 0.5
            noise = torch.randn(self.codebooks.shape, generator=generator).to(spread)
            self.codebooks.add_(noise * spread * heat)
            codes = self._search(x, codes, TRAINING_ROUNDS, seed=self.seed + step)
        return codes

    def _solve(self, x: Tensor, codes: Tensor) -> float:
        """Least squares codebooks for the codes (n, M); returns their squared error."""
        self.codebooks.copy_(least_squares(x, codes, self.codebook_size))
        return float((x - self._decode(codes)).square().sum())

    def _encode(self, x: Tensor) -> Tensor:
        return self._search(x, None, self.rounds, seed=self.seed)

    def _search(
        self, x: Tensor, codes: Tensor | None, rounds: int, seed: int
    ) -> Tensor:
        """Better codes than these (n, M), or than those of a beam, for x (n, dim)."""
        pairs, norms = pair_tables(self.codebooks), word_norms(self.codebooks)
        improve = compiled_search if can_compile(x) else local_search
        done: list[Tensor] = []
        for part in chunks(x, self.num_codebooks * self.codebook_size):
            unaries = unary_tables(part, self.codebooks, norms)
            if codes is None:
                start = searched(unaries, pairs, self.beam_size, keep=1)[1][:, 0]
            else:
                start = codes[sum(map(len, done)) :][: len(part)]
            done.append(improve(Energy(unaries, pairs), start, rounds, seed))
        return torch.cat(done)

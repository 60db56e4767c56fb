"""Residual quantization, stage after stage, and its generalized refinement."""

from typing import TypeVar, Unpack

import torch
from torch import Tensor

from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.beam import beam_codes
from gradsnap.coders.quantizers.beam_tables import BeamTables
from gradsnap.coders.quantizers.codeword_tables import residual_of_others, sum_codewords
from gradsnap.coders.quantizers.kmeans import assign, kmeans, progressive_kmeans
from gradsnap.coders.quantizers.shrinking import shrink, shrunk_means
from gradsnap.coders.quantizers.summed import BeamOptions, SummedQuantizer
from gradsnap.progress import track

STAGE_STEPS = 5
"""Iterations of k-means in a stage of RVQ, for each number of directions."""

ROWS_PER_CODEWORD = 512
"""A stage of RVQ learns from so many rows a codeword at most, or all rows there are."""

WORDS_A_STATE = 32
"""Codewords a codebook needs for each code of the beam that the next stage learns."""

RECLUSTER_STEPS = 4

SHRINKING_SWEEPS = 3


class ResidualQuantizer(SummedQuantizer):
    """RVQ (Chen et al. 2010): each codebook quantizes what the earlier ones left.

    Codes are found by beam search, in ``fit`` as well as in ``encode``, so that each
    stage learns the residuals it will meet: those of the whole beam. Codewords are
    means drawn to their centre as far as their rows are few.

    Args:
        dim: length of a vector.
        num_codebooks: stages.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random in ``fit``.
        beam_size: partial codes kept while a code is searched.
    """

    def _learn(self, x: Tensor) -> None:
        generator = self._generator()
        self.codebooks.zero_()
        for m in track(range(self.num_codebooks), "fitting stages"):
            residual = self._left(x, m, generator) if m else x
            words, _ = progressive_kmeans(
                residual,
                self.codebook_size,
                generator=generator,
                iterations=STAGE_STEPS,
            )
            given = assign(residual[None], words[None])[0]
            words, counts = shrunk_means(residual, given, words)
            self.codebooks[m] = words
            self.counts[m] = counts * (len(x) / len(residual))

    def _left(self, x: Tensor, stages: int, generator: torch.Generator) -> Tensor:
        """What the first stages leave of x (n, dim): rows for the next one to learn.

        Of the best codes in the beam, with the very best twice. Each may turn out the
        best with the next codeword, and learning from one alone fits the rows of x too
        closely. Of few codewords the second best is far off, and one alone is learned
        from. A seeded sample where they are more than a codebook can use.
        """
        codebooks = self.codebooks[:stages]
        keep = max(1, min(self.beam_size, self.codebook_size // WORDS_A_STATE))
        codes = beam_codes(x, BeamTables(codebooks), self.beam_size, keep=keep)[1]
        if keep > 1:
            codes = torch.cat([codes, codes[:, :1]], dim=1)  # (n, keep + 1, stages)
        places = torch.arange(codes.shape[0] * codes.shape[1])
        most = max(len(x), ROWS_PER_CODEWORD * self.codebook_size)
        if len(places) > most:
            places = torch.randperm(len(places), generator=generator)[:most]
        places = places.to(x.device)
        rows = x[places.div(codes.shape[1], rounding_mode="floor")]
        return rows - sum_codewords(codes.flatten(0, 1)[places], codebooks)

    def _target(self, x: Tensor, codes: Tensor, m: int, reduce: Reduce) -> Tensor:
        """What stage m should reconstruct: what the stages before it left, (n, dim)."""
        if m == 0:
            return x
        return x - sum_codewords(codes[:, :m], self.codebooks[:m])


class GeneralizedResidualQuantizer(SummedQuantizer):
    """GRVQ (Liu et al. 2015): every codebook re-learned on what all others leave.

    From a residual quantizer's codebooks on, one codebook at a time is clustered
    anew on the vectors less all other codewords; then codes are searched again and
    kept where they are better. The error on the training rows never rises so. At the
    end codewords are drawn to their centre as far as their rows are few, which costs
    some error on these rows and wins more on others.

    Args:
        dim: length of a vector.
        num_codebooks: codewords added up for one vector.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random in ``fit``.
        beam_size: partial codes kept while a code is searched.
        iterations: sweeps over all codebooks in ``fit``.
    """

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        iterations: int = 10,
        **beam: Unpack[BeamOptions],
    ) -> None:
        super().__init__(dim, num_codebooks, codebook_size, **beam)
        self.iterations = iterations

    def _learn(self, x: Tensor) -> None:
        first = start_of(ResidualQuantizer, self, x)
        self.codebooks.copy_(first.codebooks)
        codes = self._encode(x)
        for _ in track(range(self.iterations), "re-clustering codebooks"):
            for m in range(self.num_codebooks):
                self._recluster(x, codes, m)
            codes = better_codes(x, codes, self._encode(x), self.codebooks)
        self.counts.copy_(shrink(x, codes, self.codebooks, SHRINKING_SWEEPS))

    def _recluster(self, x: Tensor, codes: Tensor, m: int) -> None:
        """A step of k-means on codebook m, all others fixed; codes in place."""
        target = residual_of_others(x, codes, self.codebooks, m)[None]
        found = kmeans(
            target,
            self.codebook_size,
            generator=self._generator(),
            iterations=RECLUSTER_STEPS,
            start=self.codebooks[m : m + 1],
        )
        self.codebooks[m], self.counts[m] = found[0][0], found[1][0]
        codes[:, m] = assign(target, self.codebooks[m : m + 1])[0]


Start = TypeVar("Start", ResidualQuantizer, GeneralizedResidualQuantizer)


def start_of(kind: type[Start], quantizer: SummedQuantizer, x: Tensor) -> Start:
    """A quantizer of another kind and the same sizes, fitted to x (n, dim)."""
    start = kind(
        quantizer.dim,
        quantizer.num_codebooks,
        quantizer.codebook_size,
        seed=quantizer.seed,
        beam_size=quantizer.beam_size,
    ).to(x)
    start._learn(x)
    return start


def better_codes(x: Tensor, old: Tensor, new: Tensor, codebooks: Tensor) -> Tensor:
    """Row by row, whichever codes (n, M) reconstruct x (n, dim) better."""
    before = (x - sum_codewords(old, codebooks)).square().sum(dim=1)
    after = (x - sum_codewords(new, codebooks)).square().sum(dim=1)
    return new.where((after < before)[:, None], old)

"""Residual quantization, stage after stage, and its generalized refinement."""

from typing import TypeVar, Unpack

from torch import Tensor

from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.beam import beam_codes
from gradsnap.coders.quantizers.codeword_tables import residual_of_others, sum_codewords
from gradsnap.coders.quantizers.kmeans import assign, kmeans, progressive_kmeans
from gradsnap.coders.quantizers.summed import BeamOptions, SummedQuantizer
from gradsnap.progress import track

RECLUSTER_STEPS = 4


class ResidualQuantizer(SummedQuantizer):
    """RVQ (Chen et al. 2010): each codebook quantizes what the earlier ones left.

    Codes are found by beam search, in ``fit`` as well as in ``encode``, so that each
    stage learns the residuals it will meet.

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
        residual = x
        for m in track(range(self.num_codebooks), "fitting stages"):
            found = progressive_kmeans(
                residual, self.codebook_size, generator=generator
            )
            self.codebooks[m], self.counts[m] = found
            stages = self.codebooks[: m + 1]
            codes = beam_codes(x, stages, self.beam_size)[1][:, 0]
            residual = x - sum_codewords(codes, stages)

    def _target(self, x: Tensor, codes: Tensor, m: int, reduce: Reduce) -> Tensor:
        """What stage m should reconstruct: what the stages before it left, (n, dim)."""
        if m == 0:
            return x
        return x - sum_codewords(codes[:, :m], self.codebooks[:m])


class GeneralizedResidualQuantizer(SummedQuantizer):
    """GRVQ (Liu et al. 2015): every codebook re-learned on what all others leave.

    From a residual quantizer's codebooks on, one codebook at a time is clustered
    anew on the vectors less all other codewords; then codes are searched again and
    kept where they are better. The error on the training rows never rises.

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

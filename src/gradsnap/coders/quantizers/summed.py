"""Codebooks over all dimensions: what the additive family shares.

A reconstruction is the plain sum of its codewords, which overlap, so

    ‖x − Σ c‖² = ‖x‖² + Σₘ (‖cₘ‖² − 2⟨x, cₘ⟩) + 2 Σᵢ<ⱼ ⟨cᵢ, cⱼ⟩

has a unary part, one table entry per codebook, and a pairwise part, the cross term,
which depends on the code alone.
"""

from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.beam import beam_codes
from gradsnap.coders.quantizers.beam_tables import KeptTables
from gradsnap.coders.quantizers.codeword_tables import (
    residual_of_others,
    sum_codewords,
    unary_tables,
    word_norms,
)
from gradsnap.coders.quantizers.kmeans import accumulate, follow
from gradsnap.coders.quantizers.quantizer import Candidates, Common, Quantizer
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

MOST_CODEWORDS = 16_384
"""Pairs of codewords are tabulated: this many codewords take 1 GiB."""

WIDEST_BEAM = 65_536
"""Room for a beam is taken at once; no search gains from one nearly as wide."""


class BeamOptions(Common, total=False):
    """Options of quantizers that search codes by a beam."""

    beam_size: int


class SummedQuantizer(Quantizer):
    """Base of the quantizers whose codebooks span all dimensions.

    Args:
        dim: length of a vector.
        num_codebooks: codewords added up for one vector.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random in ``fit``.
        beam_size: partial codes kept while a code is searched.
    """

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        beam_size: int = 5,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(dim, num_codebooks, codebook_size, **common)
        if num_codebooks * codebook_size > MOST_CODEWORDS:
            raise InputError(
                f"num_codebooks * codebook_size must be at most {MOST_CODEWORDS} for "
                f"a {type(self).__name__}, got {num_codebooks} * {codebook_size}; "
                "use smaller codebooks or a ProductQuantizer"
            )
        if not 1 <= beam_size <= WIDEST_BEAM:
            raise InputError(f"beam_size must lie in 1..{WIDEST_BEAM}, got {beam_size}")
        self.beam_size = beam_size
        self._kept = KeptTables()
        self.register_buffer(
            "codebooks", torch.zeros(num_codebooks, codebook_size, dim)
        )
        self.register_buffer("counts", torch.zeros(num_codebooks, codebook_size))

    def _encode(self, x: Tensor) -> Tensor:
        return beam_codes(x, self._kept.of(self.codebooks), self.beam_size)[1][:, 0]

    def _decode(self, codes: Tensor) -> Tensor:
        return sum_codewords(codes, self.codebooks)

    def _update(self, x: Tensor, reduce: Reduce) -> None:
        """Sequential k-means, codebook after codebook, on what the others leave."""
        codes = self._encode(x)
        for m in range(self.num_codebooks):
            target = self._target(x, codes, m, reduce)
            found = accumulate(target[None], codes[None, :, m], self.codebook_size)
            batch = torch.cat([found[0][..., None], found[1]], dim=2)
            reduce(batch)
            follow(
                self.codebooks[m : m + 1],
                self.counts[m : m + 1],
                batch[..., 0],
                batch[..., 1:],
                self.decay,
            )

    def _target(self, x: Tensor, codes: Tensor, m: int, reduce: Reduce) -> Tensor:
        """What codebook m should reconstruct: x less all other codewords, (n, dim)."""
        return residual_of_others(x, codes, self.codebooks, m)

    def _candidates(self, x: Tensor, k: int) -> Candidates:
        tables, beam = self._kept.of(self.codebooks), max(k, self.beam_size)
        scores, codes = beam_codes(x, tables, beam, keep=k)
        distances = scores + x.square().sum(dim=1, keepdim=True)
        return Candidates(distances.clamp_min_(0), codes)

    def _tables(self, queries: Tensor) -> Tables:
        return Tables(
            unary_tables(queries, self.codebooks), queries.square().sum(dim=1)
        )

    def _inner_products(self, x: Tensor) -> Tensor:
        products = x @ self.codebooks.flatten(0, 1).T
        return products.view(len(x), self.num_codebooks, self.codebook_size)

    def _mix(self, weights: Tensor) -> Tensor:
        return weights.flatten(1) @ self.codebooks.flatten(0, 1)

    def _cross_terms(self, codes: Tensor) -> Tensor:
        own = word_norms(self.codebooks).T.gather(0, codes).sum(dim=1)
        return self._decode(codes).square().sum(dim=1) - own

"""Codebooks over all dimensions: what the additive family shares.

A reconstruction is the plain sum of its codewords, which overlap, so

    ‖x − Σ c‖² = ‖x‖² + Σₘ (‖cₘ‖² − 2⟨x, cₘ⟩) + 2 Σᵢ<ⱼ ⟨cᵢ, cⱼ⟩

has a unary part, one table entry per codebook, and a pairwise part, the cross term,
which depends on the code alone.
"""

from typing import Unpack

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.kmeans import accumulate, follow
from gradsnap.coders.quantizers.quantizer import (
    Candidates,
    Common,
    Quantizer,
    chunks,
)
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

MOST_CODEWORDS = 16_384
"""Pairs of codewords are tabulated: this many codewords take 1 GiB."""


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
        if beam_size < 1:
            raise InputError(f"beam_size must be at least 1, got {beam_size}")
        self.beam_size = beam_size
        self.register_buffer(
            "codebooks", torch.zeros(num_codebooks, codebook_size, dim)
        )
        self.register_buffer("counts", torch.zeros(num_codebooks, codebook_size))

    def _encode(self, x: Tensor) -> Tensor:
        return beam_codes(x, self.codebooks, self.beam_size)[1][:, 0]

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
        scores, codes = beam_codes(x, self.codebooks, max(k, self.beam_size), keep=k)
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
        norms = self.codebooks.square().sum(dim=2)  # (M, K)
        own = norms.T.gather(0, codes).sum(dim=1)
        return self._decode(codes).square().sum(dim=1) - own


def residual_of_others(x: Tensor, codes: Tensor, codebooks: Tensor, m: int) -> Tensor:
    """The rows x (n, dim) less the codewords of all codebooks but m, (n, dim)."""
    return x - sum_codewords(codes, codebooks) + codebooks[m, codes[:, m]]


def codeword_offsets(codes: Tensor, codebook_size: int) -> Tensor:
    """Where each codebook starts among all codewords, for codes (…, m): (m,)."""
    return torch.arange(codes.shape[-1], device=codes.device) * codebook_size


def sum_codewords(codes: Tensor, codebooks: Tensor) -> Tensor:
    """Sums of the codewords of codes (n, M) in codebooks (M, K, dim): (n, dim)."""
    index = codes + codeword_offsets(codes, codebooks.shape[1])
    return functional.embedding_bag(index, codebooks.flatten(0, 1), mode="sum")


def unary_tables(x: Tensor, codebooks: Tensor) -> Tensor:
    """What each codeword alone brings to the squared distance to x (n, dim).

    Returns:
        ``‖c‖² − 2⟨x, c⟩``, (n, M, K).
    """
    words = codebooks.flatten(0, 1)
    entries = torch.addmm(words.square().sum(dim=1), x, words.T, alpha=-2)
    return entries.view(len(x), *codebooks.shape[:2])


def pair_tables(codebooks: Tensor) -> Tensor:
    """Twice the inner products of all codewords, by codebook.

    Args:
        codebooks: (M, K, dim).

    Returns:
        (M, M·K, K): entry [m, j·K + a, b] is ``2⟨c_j(a), c_m(b)⟩``; zero for j = m,
        since a code has one codeword of each codebook.
    """
    num_codebooks, size, _ = codebooks.shape
    words = codebooks.flatten(0, 1)
    tables = torch.empty(
        num_codebooks,
        num_codebooks * size,
        size,
        dtype=words.dtype,
        device=words.device,
    )
    for m in range(num_codebooks):
        torch.mm(words, codebooks[m].T, out=tables[m])
        tables[m, m * size : (m + 1) * size] = 0
    return tables.mul_(2)


def pair_sums(codes: Tensor, pairs: Tensor, m: int) -> Tensor:
    """What the codewords of codes (n, j) add to each codeword of codebook m, (n, K)."""
    index = codes + codeword_offsets(codes, pairs.shape[2])
    return functional.embedding_bag(index, pairs[m], mode="sum")


def beam_codes(
    x: Tensor, codebooks: Tensor, beam: int, keep: int = 1
) -> tuple[Tensor, Tensor]:
    """The best codes a beam search finds for x (n, dim), by chunks of rows.

    Args:
        x: (n, dim).
        codebooks: (M, K, dim).
        beam: partial codes kept for each row.
        keep: codes returned for each row.

    Returns:
        scores (n, keep) ascending, which lack only ``‖x‖²``, and codes (n, keep, M).
    """
    pairs = pair_tables(codebooks)
    found = [
        beam_search(unary_tables(rows, codebooks), pairs, beam)
        for rows in chunks(x, codebooks.shape[1] * beam)
    ]
    scores = torch.cat([part[0][:, :keep] for part in found])
    return scores, torch.cat([part[1][:, :keep] for part in found])


def beam_search(unaries: Tensor, pairs: Tensor, beam: int) -> tuple[Tensor, Tensor]:
    """Extends the best partial codes codebook by codebook.

    Args:
        unaries: (n, M, K).
        pairs: ``pair_tables``, (M, M·K, K).
        beam: partial codes kept for each row.

    Returns:
        scores (n, b) ascending, which lack only ``‖x‖²``, and codes (n, b, M).
    """
    rows, num_codebooks, size = unaries.shape
    scores, first = unaries[:, 0].topk(min(beam, size), dim=1, largest=False)
    codes = first[..., None]  # (n, b, 1)
    for m in range(1, num_codebooks):
        added = pair_sums(codes.flatten(0, 1), pairs, m)
        added = added.view(rows, codes.shape[1], size)
        added += unaries[:, m, None]
        added += scores[..., None]  # (n, b, K)
        kept = min(beam, added.shape[1] * size)
        scores, best = added.flatten(1).topk(kept, dim=1, largest=False)
        state = best.div(size, rounding_mode="floor")
        earlier = codes.gather(1, state[..., None].expand(-1, -1, m))
        codes = torch.cat([earlier, best.remainder(size)[..., None]], dim=2)
    return scores, codes

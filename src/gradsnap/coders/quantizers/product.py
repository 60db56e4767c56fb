"""Product quantization: one codebook for each block of dimensions."""

from typing import Self, Unpack

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.arrays import Given
from gradsnap.coders.coder import Reduce
from gradsnap.coders.quantizers.block_tables import block_tables, can_loop
from gradsnap.coders.quantizers.candidates import smallest_sums
from gradsnap.coders.quantizers.following import follow_batch, statistics
from gradsnap.coders.quantizers.kmeans import assign, best_kmeans, kmeans
from gradsnap.coders.quantizers.known_codes import KnownCodes, known
from gradsnap.coders.quantizers.quantizer import (
    Candidates,
    Common,
    Quantizer,
    alone,
    chunks,
)
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

FEW_WORDS = 16
FITS = 8
"""Codebooks of so few words are the best of so many fits."""


class ProductQuantizer(Quantizer):
    """PQ (Jégou et al. 2011): k-means in each of M blocks of dimensions.

    The blocks are contiguous; where ``dim`` does not divide by ``num_codebooks`` the
    first ones are one dimension longer. Codebooks are kept in the compact form
    (num_codebooks, codebook_size, width), zero beyond a shorter block.

    Args:
        dim: length of a vector.
        num_codebooks: number of blocks; at most ``dim``.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones.
        seed: of everything random in ``fit``.

    Example:
        >>> x = torch.randn(500, 10, generator=torch.Generator().manual_seed(0))
        >>> quantizer = ProductQuantizer(dim=10, num_codebooks=3, codebook_size=16)
        >>> codes = quantizer.fit(x).encode(x)
        >>> quantizer.bits, tuple(codes.shape), codes.dtype
        (12, (500, 3), torch.uint8)
    """

    _known: KnownCodes | None = None

    def __init__(
        self, dim: int, num_codebooks: int, codebook_size: int, **common: Unpack[Common]
    ) -> None:
        super().__init__(dim, num_codebooks, codebook_size, **common)
        check_blocks(dim, num_codebooks)
        self.width = -(-dim // num_codebooks)
        shape = (num_codebooks, codebook_size, self.width)
        self.register_buffer("codebooks", torch.zeros(shape))
        self.register_buffer("counts", torch.zeros(num_codebooks, codebook_size))

    @property
    def squared_blocks(self) -> bool:
        """Whether table entries are squared distances of blocks: they are."""
        return True

    def blocks(self, x: Tensor) -> Tensor:
        """The blocks of x (n, dim), zero-padded: (num_codebooks, n, width)."""
        if self.dim % self.num_codebooks:
            parts = x.tensor_split(self.num_codebooks, dim=1)
            wide = [functional.pad(p, (0, self.width - p.shape[1])) for p in parts]
            return torch.stack(wide)
        return x.view(len(x), self.num_codebooks, self.width).transpose(0, 1)

    def _learn(self, x: Tensor) -> None:
        self._cluster(x, start=None)

    def refine(self, x: Tensor) -> None:
        """More k-means on x (n, dim), from the codebooks there are."""
        self._cluster(x, start=self.codebooks)

    def _cluster(self, x: Tensor, start: Tensor | None) -> None:
        blocks, size = self.blocks(x).contiguous(), self.codebook_size
        generator = self._generator()
        if start is None and size <= FEW_WORDS:
            # Few words leave k-means in poor minima, and are cheap to learn again.
            found = best_kmeans(blocks, size, generator=generator, fits=FITS)
        else:
            found = kmeans(blocks, size, generator=generator, start=start)
        self.codebooks.copy_(found[0])
        self.counts.copy_(found[1])

    def _encode(self, x: Tensor) -> Tensor:
        return assign(self.blocks(x), self.codebooks).T

    def _decode(self, codes: Tensor) -> Tensor:
        blocks = torch.arange(self.num_codebooks, device=codes.device)
        return self._join(self.codebooks[blocks, codes])

    def _mix(self, weights: Tensor) -> Tensor:
        mixed = torch.bmm(weights.transpose(0, 1), self.codebooks)  # (M, n, width)
        return self._join(mixed.transpose(0, 1))

    def _join(self, words: Tensor) -> Tensor:
        """Blocks (n, M, width) side by side, without their padding: (n, dim)."""
        longer = self.dim % self.num_codebooks
        if longer == 0:
            return words.flatten(1)
        head, tail = words[:, :longer], words[:, longer:, : self.width - 1]
        return torch.cat([head.flatten(1), tail.flatten(1)], dim=1)

    def update(self, x: Given, reduce: Reduce | None = None) -> Self:
        """As of every quantizer; rows that a layer has just seen are known already."""
        known, self.__dict__["_known"] = self._known, None
        codes = None if known is None else known.of(x, self.codebooks)
        if known is None or codes is None:
            return super().update(x, reduce)
        self._follow(known.rows, codes, reduce or alone)
        return self

    def _update(self, x: Tensor, reduce: Reduce) -> None:
        self._follow(x, self._encode(x), reduce)

    def _follow(self, x: Tensor, codes: Tensor, reduce: Reduce) -> None:
        """Lets the codebooks follow x (n, dim) with its codes (n, M)."""
        rows, _ = self._in_blocks(x)
        batch = statistics(rows, codes, self.codebook_size, self.width)
        reduce(batch)
        follow_batch(self.codebooks, self.counts, batch, self.decay)

    def _remember(self, x: Tensor, codes: Tensor) -> None:
        """Spares the next ``update`` to find codes (n, M) of x (n, dim) once more."""
        # What the module itself does, after many questions that take far longer.
        self.__dict__["_known"] = known(x, self.codebooks, codes)

    def _candidates(self, x: Tensor, k: int) -> Candidates:
        size = self.num_codebooks * max(self.codebook_size, k)
        parts = [smallest_sums(self._tables(rows)[0], k) for rows in chunks(x, size)]
        if len(parts) == 1:  # a training batch: spare it the copy
            return parts[0]
        return Candidates(*map(torch.cat, zip(*parts, strict=True)))

    def _tables(self, queries: Tensor) -> Tables:
        """Squared distance of each block to each codeword; the offset is zero."""
        offsets = queries.new_zeros(len(queries))
        if can_loop(queries):
            return Tables(block_tables(*self._in_blocks(queries)), offsets)
        blocks = self.blocks(queries)
        norms = self.codebooks.square().sum(dim=2)[:, None]  # (M, 1, K)
        turned = self.codebooks.transpose(1, 2)
        entries = torch.baddbmm(norms, blocks, turned, alpha=-2)  # (M, q, K)
        entries += blocks.square().sum(dim=2)[..., None]
        entries = entries.clamp_min_(0).transpose(0, 1).contiguous()
        return Tables(entries, offsets)

    def _in_blocks(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.dim % self.num_codebooks:
            x = self.blocks(x).transpose(0, 1).flatten(1)
        return x, self._buffers["codebooks"]  # type: ignore[return-value]  # at once

    def _inner_products(self, x: Tensor) -> Tensor:
        return torch.bmm(self.blocks(x), self.codebooks.transpose(1, 2)).transpose(0, 1)


def check_blocks(dim: int, num_codebooks: int) -> None:
    """Refuses more blocks than dimensions."""
    if num_codebooks > dim:
        raise InputError(
            f"num_codebooks must be at most dim = {dim} for a product quantizer, "
            f"got {num_codebooks}"
        )

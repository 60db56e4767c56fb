"""What all hashers share: bits packed into bytes, compared by Hamming distance."""

from abc import abstractmethod
from typing import Any, Self, TypedDict

import torch
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.hamming import bit_tables
from gradsnap.coders.packing import packed_bits
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

ENCODE_ROWS = 8192
"""Rows whose bits are found at once."""


class Seeded(TypedDict, total=False):
    """Options that every hasher has."""

    seed: int


class Hasher(Coder):
    """A coder of bits: a code's integers are bytes, eight bits of the hash in each.

    Queries are hashed too, and a distance is the number of bits that differ, or the sum
    of their weights. A child owns how bits are found.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of everything random in ``fit``.
    """

    codebook_size = 256
    _fewest_rows = 2

    def __init__(self, dim: int, bits: int, *, seed: int = 0) -> None:
        super().__init__(dim, seed=seed)
        if bits < 1:
            raise InputError(f"bits must be at least 1, got {bits}")
        self.num_bits = bits
        self.num_codebooks = -(-bits // 8)

    @classmethod
    def of_bits(
        cls, dim: int, bits: int, codebook_size: int | None = None, **options: Any
    ) -> Self:
        """A hasher of so many bits; it has no codebooks to choose a size for."""
        if codebook_size is not None:
            raise InputError(
                f"a {cls.__name__} makes bits: codebook_size {codebook_size} is for "
                "quantizers"
            )
        return cls(dim, bits, **options)

    @abstractmethod
    def _signs(self, x: Tensor) -> Tensor:
        """Bits of x (n, dim): bool (n, bits)."""

    @property
    def bits(self) -> int:
        """Length of a hash."""
        return self.num_bits

    @property
    def dtype(self) -> torch.dtype:
        """The floating type bits are found in: that of the buffers, if there are."""
        floating = (one.dtype for one in self.buffers() if one.is_floating_point())
        return next(floating, torch.float32)

    @property
    def bit_weights(self) -> Tensor:
        """What each bit that differs adds to a distance, (bits,); one here."""
        return torch.ones(self.bits, device=self.fitted.device)

    @property
    def hamming_levels(self) -> int | None:
        """The largest distance: all bits differ."""
        return self.bits

    def _encode(self, x: Tensor) -> Tensor:
        parts = [packed_bits(self._signs(part)) for part in x.split(ENCODE_ROWS)]
        return torch.cat(parts)

    def _tables(self, queries: Tensor) -> Tables:
        return bit_tables(self._encode(queries), self.bit_weights)

    def _code_tables(self, codes: Tensor) -> Tables:
        return bit_tables(codes.to(torch.uint8), self.bit_weights)


def signs_of(values: Tensor) -> Tensor:
    """1 where values are positive and −1 elsewhere, of the same type and shape."""
    return values.gt(0).to(values.dtype).mul_(2).sub_(1)


def check_bits_fit(name: str, bits: int, dim: int) -> None:
    """Refuses more bits than there are directions."""
    if bits > dim:
        raise InputError(f"{name} gives at most one bit a dimension: {bits} > {dim}")

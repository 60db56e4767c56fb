"""Hamming distances of packed hashes: how many bits differ."""

import torch
from torch import Tensor

from gradsnap.coders.hashers.packing import check_hashes, unpacked_bits
from gradsnap.errors import InputError

ITEM_BLOCK = 1 << 16
"""Hashes that are unpacked at once."""


def hamming_distances(queries: Tensor, hashes: Tensor) -> Tensor:
    """Bits that differ between packed hashes (q, bytes) and (n, bytes): float32 (q, n).

    By a product of signs: with s in {−1, 1}, the distance is (bits − ⟨s, t⟩) / 2, which
    floats hold exactly and every device multiplies fast.

    Example:
        >>> some = torch.tensor([[0b0101], [0b0111]], dtype=torch.uint8)
        >>> hamming_distances(some, some)
        tensor([[0., 1.],
                [1., 0.]])
    """
    check_alike(queries, hashes)
    bits = 8 * queries.shape[1]
    signs = _signs(queries, bits)
    found = torch.empty(len(queries), len(hashes), device=queries.device)
    for start in range(0, len(hashes), ITEM_BLOCK):
        part = _signs(hashes[start : start + ITEM_BLOCK], bits)
        torch.mm(signs, part.T, out=found[:, start : start + ITEM_BLOCK])
    return found.neg_().add_(bits).mul_(0.5)


def check_alike(queries: Tensor, hashes: Tensor) -> None:
    """Refuses hashes of two lengths."""
    check_hashes(queries)
    check_hashes(hashes)
    if queries.shape[1] != hashes.shape[1]:
        raise InputError(
            f"queries have {queries.shape[1]} bytes a hash, the database "
            f"{hashes.shape[1]}"
        )


def _signs(hashes: Tensor, bits: int) -> Tensor:
    return unpacked_bits(hashes, bits).float().mul_(2).sub_(1)

"""Hamming distances of packed hashes: how many bits differ, or what they weigh."""

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.coders.packing import check_hashes, unpacked_bits
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

ITEM_BLOCK = 1 << 16
"""Hashes that are unpacked at once."""


def hamming_distances(queries: Given, hashes: Given) -> Tensor:
    """Bits that differ between packed hashes (q, bytes) and (n, bytes): float32 (q, n).

    By a product of signs: with s in {−1, 1}, the distance is (bits − ⟨s, t⟩) / 2, which
    floats hold exactly and every device multiplies fast.

    Example:
        >>> some = torch.tensor([[0b0101], [0b0111]], dtype=torch.uint8)
        >>> hamming_distances(some, some)
        tensor([[0., 1.],
                [1., 0.]])
    """
    queries, hashes = as_tensor(queries), as_tensor(hashes)
    check_alike(queries, hashes)
    bits = 8 * queries.shape[1]
    signs = _signs(queries, bits)
    found = torch.empty(len(queries), len(hashes), device=queries.device)
    for start in range(0, len(hashes), ITEM_BLOCK):
        part = _signs(hashes[start : start + ITEM_BLOCK], bits)
        torch.mm(signs, part.T, out=found[:, start : start + ITEM_BLOCK])
    return found.neg_().add_(bits).mul_(0.5)


def bit_tables(hashes: Tensor, weights: Tensor) -> Tables:
    """Tables whose sums are (weighted) Hamming distances to packed hashes.

    Each byte is a codebook of 256 words; the entry of a word is the weight of the bits
    in which it differs from the query's byte.

    Args:
        hashes: of the queries, uint8 (q, bytes).
        weights: of the bits, (bits,); what is missing to whole bytes weighs nothing.
    """
    check_hashes(hashes)
    padding = 8 * hashes.shape[1] - len(weights)
    if padding < 0:
        raise InputError(
            f"expected at most {8 * hashes.shape[1]} weights for hashes of "
            f"{hashes.shape[1]} bytes, got {len(weights)}"
        )
    own = torch.nn.functional.pad(weights.float(), (0, padding)).view(-1, 8)
    words = torch.arange(256, device=hashes.device)
    bits = unpacked_bits(words.to(torch.uint8)[:, None], 8).float()  # (256, 8)
    each = (own @ bits.T).expand(len(hashes), -1, -1)  # what a word's ones weigh
    # The bits that differ are the ones of the exclusive or: looked up rather than
    # computed, the entry of the query's own byte is zero to the bit.
    entries = each.gather(2, hashes.long()[..., None] ^ words)  # (q, M, 256)
    return Tables(entries, entries.new_zeros(len(hashes)))


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

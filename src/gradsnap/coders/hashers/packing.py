"""Hashes as bytes: eight bits in each, the first bit of a hash in the lowest one."""

import torch
from torch import Tensor

from gradsnap.errors import InputError


def packed_bits(signs: Tensor) -> Tensor:
    """Bits (n, bits), bool, as bytes: uint8 (n, ⌈bits / 8⌉); the last is padded with 0.

    The order is NumPy's "little", and that of FAISS's binary indexes.

    Example:
        >>> packed_bits(torch.tensor([[True, False, False, True]]))
        tensor([[9]], dtype=torch.uint8)
    """
    if signs.ndim != 2 or signs.dtype != torch.bool:
        raise InputError(
            f"expected bits as bool (n, bits), got {signs.dtype} of shape "
            f"{tuple(signs.shape)}"
        )
    padded = torch.nn.functional.pad(signs, (0, -signs.shape[1] % 8))
    places = 2 ** torch.arange(8, dtype=torch.uint8, device=signs.device)
    eights = padded.unflatten(1, (-1, 8))  # (n, bytes, 8)
    packed: Tensor = (eights * places).sum(dim=2, dtype=torch.uint8)
    return packed


def unpacked_bits(hashes: Tensor, bits: int) -> Tensor:
    """The bits (n, bits), bool, of bytes (n, ⌈bits / 8⌉)."""
    check_hashes(hashes)
    if not 1 <= bits <= 8 * hashes.shape[1]:
        raise InputError(f"{hashes.shape[1]} bytes hold no hash of {bits} bits")
    places = torch.arange(8, dtype=torch.uint8, device=hashes.device)
    every = hashes[..., None].bitwise_right_shift(places) & 1  # (n, bytes, 8)
    return every.flatten(1)[:, :bits].bool()


def check_hashes(hashes: Tensor) -> None:
    """Refuses what is no packed hashes, uint8 (n, bytes)."""
    if hashes.ndim != 2 or hashes.dtype != torch.uint8 or hashes.shape[1] < 1:
        raise InputError(
            f"expected packed hashes, uint8 (n, bytes), got {hashes.dtype} of shape "
            f"{tuple(hashes.shape)}"
        )


def as_words(hashes: Tensor) -> Tensor:
    """Packed hashes (n, bytes) as 64-bit words, int64 (n, ⌈bytes / 8⌉)."""
    check_hashes(hashes)
    padded = torch.nn.functional.pad(hashes, (0, -hashes.shape[1] % 8))
    return padded.contiguous().view(torch.int64)

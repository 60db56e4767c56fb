"""Codes and bits as bytes, lowest bit first, as FAISS and NumPy's "little" order them.

The one home of the bit order: hashes are codes whose integers are bytes, so that what a
hasher packs is what an index stores and what FAISS reads.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError

Array = NDArray[Any]


def bits_of(codebook_size: int) -> int:
    """Bits of one integer of a code."""
    return codebook_size.bit_length() - 1


def bytes_of(num_codebooks: int, codebook_size: int) -> int:
    """Bytes of a packed code."""
    return -(-num_codebooks * bits_of(codebook_size) // 8)


def pack(codes: Array, codebook_size: int) -> Array:
    """Codes (n, M) as bytes (n, ⌈M · bits / 8⌉), the lowest bits first."""
    bits = bits_of(codebook_size)
    if bits == 8:
        return np.ascontiguousarray(codes, dtype=np.uint8)
    if bits == 16:
        return np.ascontiguousarray(codes, dtype="<u2").view(np.uint8)
    if bits == 4:
        return _pack_nibbles(codes.astype(np.uint8))
    shifts = np.arange(bits, dtype=np.uint16)
    flags = (codes[..., None].astype(np.uint16) >> shifts) & 1  # (n, M, bits)
    rows = flags.reshape(len(codes), codes.shape[1] * bits).astype(np.uint8)
    return np.packbits(rows, axis=1, bitorder="little")


def unpack(packed: Array, num_codebooks: int, codebook_size: int) -> Array:
    """Codes (n, M), uint8 up to 256 codewords and uint16 above; a view if it can be.

    Any shape (…, bytes) gives (…, M); no rows give no codes.
    """
    bits = bits_of(codebook_size)
    packed = np.asarray(packed)
    if bits == 8:
        return packed
    if bits == 16:
        return packed.view("<u2")
    if bits == 4:
        halves = np.stack([packed & 15, packed >> 4], axis=-1)  # (…, bytes, 2)
        whole = halves.reshape(*packed.shape[:-1], 2 * packed.shape[-1])
        return np.ascontiguousarray(whole[..., :num_codebooks])
    return _unpack_flags(packed, num_codebooks, bits)


def packed_bits(signs: Given) -> Tensor:
    """Bits (n, bits), bool, as bytes: uint8 (n, ⌈bits / 8⌉); the last is padded with 0.

    Example:
        >>> packed_bits(torch.tensor([[True, False, False, True]]))
        tensor([[9]], dtype=torch.uint8)
    """
    signs = as_tensor(signs)
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


def unpacked_bits(hashes: Given, bits: int) -> Tensor:
    """The bits (n, bits), bool, of bytes (n, ⌈bits / 8⌉)."""
    hashes = as_tensor(hashes)
    check_hashes(hashes)
    if not 1 <= bits <= 8 * hashes.shape[1]:
        raise InputError(f"{hashes.shape[1]} bytes hold no hash of {bits} bits")
    places = torch.arange(8, dtype=torch.uint8, device=hashes.device)
    every = hashes[..., None].bitwise_right_shift(places) & 1  # (n, bytes, 8)
    return every.flatten(1)[:, :bits].bool()


def as_words(hashes: Tensor) -> Tensor:
    """Packed hashes (n, bytes) as 64-bit words, int64 (n, ⌈bytes / 8⌉)."""
    check_hashes(hashes)
    padded = torch.nn.functional.pad(hashes, (0, -hashes.shape[1] % 8))
    return padded.contiguous().view(torch.int64)


def check_hashes(hashes: Tensor) -> None:
    """Refuses what is no packed hashes, uint8 (n, bytes)."""
    if hashes.ndim != 2 or hashes.dtype != torch.uint8 or hashes.shape[1] < 1:
        raise InputError(
            f"expected packed hashes, uint8 (n, bytes), got {hashes.dtype} of shape "
            f"{tuple(hashes.shape)}"
        )


def _pack_nibbles(codes: Array) -> Array:
    if codes.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1)))
    return np.ascontiguousarray(codes[:, ::2] | (codes[:, 1::2] << 4))


def _unpack_flags(packed: Array, num_codebooks: int, bits: int) -> Array:
    flags = np.unpackbits(
        packed, axis=-1, count=num_codebooks * bits, bitorder="little"
    )
    flags = flags.reshape(*packed.shape[:-1], num_codebooks, bits)
    codes: Array = np.zeros(flags.shape[:-1], dtype=np.uint16)
    for bit in range(bits):
        codes |= flags[..., bit].astype(np.uint16) << np.uint16(bit)
    return codes.astype(np.uint8) if bits < 8 else codes

"""Codes in as few bytes as they have bits, laid out as FAISS lays them out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        return _nibbles(codes.astype(np.uint8))
    shifts = np.arange(bits, dtype=np.uint16)
    flags = (codes[..., None].astype(np.uint16) >> shifts) & 1  # (n, M, bits)
    rows = flags.reshape(len(codes), -1).astype(np.uint8)
    return np.packbits(rows, axis=1, bitorder="little")


def unpack(packed: Array, num_codebooks: int, codebook_size: int) -> Array:
    """Codes (n, M), uint8 up to 256 codewords and uint16 above; a view if it can be."""
    bits = bits_of(codebook_size)
    packed = np.asarray(packed)
    if bits == 8:
        return packed
    if bits == 16:
        return packed.view("<u2")
    if bits == 4:
        halves = np.stack([packed & 15, packed >> 4], axis=-1)
        return np.ascontiguousarray(
            halves.reshape(*packed.shape[:-1], -1)[..., :num_codebooks]
        )
    return _unpack_bits(packed, num_codebooks, bits)


def _nibbles(codes: Array) -> Array:
    if codes.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1)))
    return np.ascontiguousarray(codes[:, ::2] | (codes[:, 1::2] << 4))


def _unpack_bits(packed: Array, num_codebooks: int, bits: int) -> Array:
    flags = np.unpackbits(packed, axis=1, count=num_codebooks * bits, bitorder="little")
    flags = flags.reshape(len(packed), num_codebooks, bits)
    codes: Array = np.zeros((len(packed), num_codebooks), dtype=np.uint16)
    for bit in range(bits):
        codes |= flags[..., bit].astype(np.uint16) << np.uint16(bit)
    return codes.astype(np.uint8) if bits < 8 else codes

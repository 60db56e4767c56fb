"""Hashes: vectors to binary codes, compared by the bits that differ."""

from gradsnap.hashing.hamming import hamming_distances
from gradsnap.hashing.packing import packed_bits, unpacked_bits

__all__ = ["hamming_distances", "packed_bits", "unpacked_bits"]

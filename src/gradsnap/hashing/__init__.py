"""Hashes: vectors to binary codes, compared by the bits that differ."""

from gradsnap.hashing.base import Hasher
from gradsnap.hashing.boosted import BoostedTreeHasher
from gradsnap.hashing.discrete import DiscreteHasher
from gradsnap.hashing.hamming import hamming_distances
from gradsnap.hashing.kernel import KernelHasher
from gradsnap.hashing.linear import (
    IterativeQuantizer,
    PrincipalHasher,
    RandomHasher,
)
from gradsnap.hashing.packing import packed_bits, unpacked_bits
from gradsnap.hashing.spectral import SpectralHasher
from gradsnap.hashing.storage import load_hasher

HASHERS: dict[str, type[Hasher]] = {
    "lsh": RandomHasher,
    "pcah": PrincipalHasher,
    "itq": IterativeQuantizer,
    "sh": SpectralHasher,
    "ksh": KernelHasher,
    "sdh": DiscreteHasher,
    "fasthash": BoostedTreeHasher,
}
"""Every hasher by its short name; being in here is being tested and comparable."""

__all__ = [
    "HASHERS",
    "BoostedTreeHasher",
    "DiscreteHasher",
    "Hasher",
    "IterativeQuantizer",
    "KernelHasher",
    "PrincipalHasher",
    "RandomHasher",
    "SpectralHasher",
    "hamming_distances",
    "load_hasher",
    "packed_bits",
    "unpacked_bits",
]

"""Hashes: vectors to binary codes, compared by the bits that differ."""

from gradsnap.coders.hashers.fasthash import BoostedTreeHasher
from gradsnap.coders.hashers.hamming import hamming_distances
from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.coders.hashers.ksh import KernelHasher
from gradsnap.coders.hashers.linear import (
    IterativeQuantizer,
    PrincipalHasher,
    RandomHasher,
)
from gradsnap.coders.hashers.packing import packed_bits, unpacked_bits
from gradsnap.coders.hashers.sdh import DiscreteHasher
from gradsnap.coders.hashers.spectral import SpectralHasher
from gradsnap.coders.hashers.storage import load_hasher

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

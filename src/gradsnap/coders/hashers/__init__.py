"""Hashers: vectors to bits, compared by those that differ."""

from gradsnap.coders.hashers.fasthash import BoostedTreeHasher
from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.coders.hashers.ksh import KernelHasher
from gradsnap.coders.hashers.linear import ITQHasher, PrincipalHasher, RandomHasher
from gradsnap.coders.hashers.sdh import DiscreteHasher
from gradsnap.coders.hashers.sign import SignHasher
from gradsnap.coders.hashers.spectral import SpectralHasher
from gradsnap.coders.hashers.weighted import WeightedHasher

HASHERS: dict[str, type[Hasher]] = {
    "sign": SignHasher,
    "lsh": RandomHasher,
    "pcah": PrincipalHasher,
    "itq": ITQHasher,
    "sh": SpectralHasher,
    "ksh": KernelHasher,
    "sdh": DiscreteHasher,
    "fasthash": BoostedTreeHasher,
    "weighted": WeightedHasher,
}
"""Every hasher by its short name; being in here is being tested and comparable."""

__all__ = [
    "HASHERS",
    "BoostedTreeHasher",
    "DiscreteHasher",
    "Hasher",
    "ITQHasher",
    "KernelHasher",
    "PrincipalHasher",
    "RandomHasher",
    "SignHasher",
    "SpectralHasher",
    "WeightedHasher",
]

"""Coders: whatever turns vectors into codes, quantizers and hashers alike."""

from gradsnap.coders.coder import Coder
from gradsnap.coders.hamming import hamming_distances
from gradsnap.coders.hashers import HASHERS, Hasher
from gradsnap.coders.packing import packed_bits, unpacked_bits
from gradsnap.coders.quantizers import (
    QUANTIZERS,
    LocallyOptimizedProductQuantizer,
    Quantizer,
    SupervisedQuantizer,
)
from gradsnap.coders.storage import load_coder
from gradsnap.coders.tables import Tables

CODERS: dict[str, type[Coder]] = {
    **QUANTIZERS,
    "sq": SupervisedQuantizer,
    "lopq": LocallyOptimizedProductQuantizer,
    **HASHERS,
}
"""Every coder by its short name: what ``--coder`` takes and files are named by."""

__all__ = [
    "CODERS",
    "HASHERS",
    "QUANTIZERS",
    "Coder",
    "Hasher",
    "Quantizer",
    "Tables",
    "hamming_distances",
    "load_coder",
    "packed_bits",
    "unpacked_bits",
]

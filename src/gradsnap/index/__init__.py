"""Indexes: items found by their codes."""

from gradsnap.index.exhaustive import ExhaustiveIndex
from gradsnap.index.filtering import Filter
from gradsnap.index.folder_reading import load_index
from gradsnap.index.hamming import HammingIndex
from gradsnap.index.index import Index
from gradsnap.index.inverted import InvertedIndex
from gradsnap.index.local import LocallyOptimizedIndex
from gradsnap.index.multi import MultiIndex
from gradsnap.index.queries import SearchResult
from gradsnap.index.rerank import HalfPrecision, LongerCode, Refiner
from gradsnap.index.tuning import Trial, Tuning

INDEXES: dict[str, type[Index]] = {
    "exhaustive": ExhaustiveIndex,
    "inverted": InvertedIndex,
    "multi": MultiIndex,
    "local": LocallyOptimizedIndex,
    "hamming": HammingIndex,
}
"""Every index by its short name, the name its manifest holds."""

__all__ = [
    "INDEXES",
    "ExhaustiveIndex",
    "Filter",
    "HalfPrecision",
    "HammingIndex",
    "Index",
    "InvertedIndex",
    "LocallyOptimizedIndex",
    "LongerCode",
    "MultiIndex",
    "Refiner",
    "SearchResult",
    "Trial",
    "Tuning",
    "load_index",
]

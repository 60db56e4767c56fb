"""Triplets: selected inside a batch, or drawn from a whole data set."""

from collections.abc import Callable

from gradsnap.triplets.classes import FeatureRelevance, LabelRelevance, Relevance
from gradsnap.triplets.samplers import ImportanceSampler, UniformSampler
from gradsnap.triplets.selectors import BatchAll, BatchHard, SemiHard
from gradsnap.triplets.triplets import Sampler, Selector, Triplets

SELECTORS: dict[str, Callable[..., Selector]] = {
    "batch-all": BatchAll,
    "batch-hard": BatchHard,
    "semi-hard": SemiHard,
}
"""Those that ``select(embeddings, labels)`` inside a batch."""

SAMPLERS: dict[str, Callable[..., Sampler]] = {
    "uniform": UniformSampler,
    "importance": ImportanceSampler,
}
"""Those that ``draw(count)`` from a data set whose labels they are given."""

TRIPLETS: dict[str, Callable[..., Selector] | Callable[..., Sampler]] = {
    **SELECTORS,
    **SAMPLERS,
}
"""Every way to choose triplets by its short name; being in here is being tested."""

__all__ = [
    "SAMPLERS",
    "SELECTORS",
    "TRIPLETS",
    "BatchAll",
    "BatchHard",
    "FeatureRelevance",
    "ImportanceSampler",
    "LabelRelevance",
    "Relevance",
    "Sampler",
    "Selector",
    "SemiHard",
    "Triplets",
    "UniformSampler",
]

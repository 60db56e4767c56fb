"""Measuring retrieval: rules said aloud, ties in expectation, memory bounded."""

from gradsnap.evaluation.confidence import (
    Interval,
    PairedTest,
    Spread,
    bootstrap,
    paired_test,
    spread,
)
from gradsnap.evaluation.distances import (
    CodeDistances,
    Distances,
    EmbeddingDistances,
    HashDistances,
)
from gradsnap.evaluation.evaluating import evaluate
from gradsnap.evaluation.metrics import mean_average_precision
from gradsnap.evaluation.neighbors import nearest_items, recall_at
from gradsnap.evaluation.result import Evaluation
from gradsnap.evaluation.rules import RankingRules

__all__ = [
    "CodeDistances",
    "Distances",
    "EmbeddingDistances",
    "Evaluation",
    "HashDistances",
    "Interval",
    "PairedTest",
    "RankingRules",
    "Spread",
    "bootstrap",
    "evaluate",
    "mean_average_precision",
    "nearest_items",
    "paired_test",
    "recall_at",
    "spread",
]

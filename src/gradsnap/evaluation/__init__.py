"""Measuring retrieval: rules said aloud, ties in expectation, memory bounded."""

from gradsnap.evaluation.card import Difference, ProtocolCard
from gradsnap.evaluation.comparing import ComparedRun, Comparison, compare
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
from gradsnap.evaluation.plots import plot_precision_at, plot_precision_recall
from gradsnap.evaluation.result import Evaluation
from gradsnap.evaluation.rules import RankingRules
from gradsnap.evaluation.runs import Run, load_run

__all__ = [
    "CodeDistances",
    "ComparedRun",
    "Comparison",
    "Difference",
    "Distances",
    "EmbeddingDistances",
    "Evaluation",
    "HashDistances",
    "Interval",
    "PairedTest",
    "ProtocolCard",
    "RankingRules",
    "Run",
    "Spread",
    "bootstrap",
    "compare",
    "evaluate",
    "load_run",
    "mean_average_precision",
    "nearest_items",
    "paired_test",
    "plot_precision_at",
    "plot_precision_recall",
    "recall_at",
    "spread",
]

"""Measuring retrieval: rules stated, ties in expectation, memory bounded."""

from gradsnap.evaluation.card import Difference, ProtocolCard, RankingRules
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
    code_distances,
    nearest_items,
)
from gradsnap.evaluation.evaluation import Evaluation, evaluate
from gradsnap.evaluation.grades import ranked_relevance, relevance, total_relevant
from gradsnap.evaluation.metrics import mean_average_precision, recall_at
from gradsnap.evaluation.neighbors import true_neighbors
from gradsnap.evaluation.pairs import (
    pair_auc,
    pair_average_precision,
    pair_distances,
    partner_figures,
)
from gradsnap.evaluation.runs import (
    ComparedRun,
    Comparison,
    Run,
    compare,
    load_run,
    plot_precision_at,
    plot_precision_recall,
)

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
    "code_distances",
    "compare",
    "evaluate",
    "load_run",
    "mean_average_precision",
    "nearest_items",
    "pair_auc",
    "pair_average_precision",
    "pair_distances",
    "paired_test",
    "partner_figures",
    "plot_precision_at",
    "plot_precision_recall",
    "ranked_relevance",
    "recall_at",
    "relevance",
    "spread",
    "total_relevant",
    "true_neighbors",
]

"""How well floats and codes rank, measured in blocks of queries."""

from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.data import ranked_relevance, total_relevant
from gradsnap.evaluation import mean_average_precision
from gradsnap.progress import track
from gradsnap.quantizers import Quantizer

QUERIES_AT_ONCE = 64


class Scores(NamedTuple):
    """What a trained network is worth on one pair of queries and database."""

    float_map: float
    """MAP of ranking the database by the embeddings' distances."""
    code_map: float
    """MAP of ranking it by the distances from queries to reconstructions."""
    relative_error: float
    """Quantization error over the variance of the database's embeddings."""


class Labelled(NamedTuple):
    """Embeddings with their labels."""

    rows: Tensor
    """(n, dim)."""
    labels: Tensor
    """(n,) or multi-hot (n, L)."""


def score(
    quantizer: Quantizer, queries: Labelled, database: Labelled, top: int | None = None
) -> Scores:
    """MAP of floats and codes, over the whole database or the first ``top``."""
    codes = quantizer.encode(database.rows)
    floats, coded = 0.0, 0.0
    starts = range(0, len(queries.rows), QUERIES_AT_ONCE)
    for start in track(starts, "ranking"):
        some = Labelled(*(part[start : start + QUERIES_AT_ONCE] for part in queries))
        share = len(some.rows) / len(queries.rows)
        apart = torch.cdist(some.rows, database.rows)
        floats += share * _ranked_map(apart, some, database, top)
        apart = quantizer.distances(some.rows, codes)
        coded += share * _ranked_map(apart, some, database, top)
    return Scores(floats, coded, relative_error(quantizer, database.rows))


def relative_error(quantizer: Quantizer, rows: Tensor) -> float:
    """Quantization error of rows (n, dim) over their variance."""
    spread = (rows - rows.mean(dim=0)).double().square().sum(dim=1).mean()
    return quantizer.error(rows) / max(float(spread), 1e-30)


def _ranked_map(
    distances: Tensor, queries: Labelled, database: Labelled, top: int | None
) -> float:
    """MAP of ranking by distances (q, n), ascending; ties by place."""
    order = distances.argsort(dim=1, stable=True)[:, :top]
    relevant = ranked_relevance(queries.labels, database.labels, order)
    total = total_relevant(queries.labels, database.labels)
    return float(mean_average_precision(relevant, total))

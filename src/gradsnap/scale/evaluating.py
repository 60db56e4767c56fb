"""MAP over workers: each embeds some items, then each ranks for some queries.

Blocks of queries do not depend on each other, so that the figures are those of one
process, to the bit.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.errors import InputError
from gradsnap.evaluation import Evaluation, RankingRules
from gradsnap.evaluation.evaluation import Part, Ranking
from gradsnap.inference.embedding import embed
from gradsnap.inference.engines import engine_for
from gradsnap.progress import track
from gradsnap.scale.packed_model import PackedModel
from gradsnap.scale.workers import Workers
from gradsnap.training.config import DataSettings
from gradsnap.training.defaults import Settled
from gradsnap.training.opening import open_items
from gradsnap.training.scoring import Labelled, Scores, distances_of, relative_error

ITEMS = 4096
"""Items that a worker embeds between two messages."""


class Items(NamedTuple):
    """What a worker has to know to embed items."""

    model: PackedModel
    data: DataSettings
    total: int
    """Items in all, by which the engine is chosen."""


class Embedder:
    """Embeds items of a data set that each worker opens for itself.

    Args:
        items: what is embedded.
    """

    def __init__(self, items: Items) -> None:
        model = items.model.load()
        self.dataset = open_items(items.data)
        self.network = model.network_for(self.dataset)
        shape = self.dataset.item_shape
        self.engine = engine_for(self.network, items.total, shape)

    def __call__(self, indices: Tensor) -> Tensor:
        """Embeddings (n, dim) of the items at indices (n,)."""
        return embed(self.network, self.dataset, indices, engine=self.engine)


class Ranked(NamedTuple):
    """What a worker has to know to rank."""

    coder: Coder | None
    """None to rank by embeddings."""
    queries: Labelled
    database: Labelled
    rules: RankingRules

    def ranking(self) -> Ranking:
        """All blocks of queries."""
        distances = distances_of(self.coder, self.queries, self.database)
        labels = self.queries.labels, self.database.labels
        return Ranking.of(distances, *labels, self.rules)


class Ranker:
    """Ranks the database for blocks of queries.

    Args:
        ranked: what is ranked.
    """

    def __init__(self, ranked: Ranked) -> None:
        self.ranking = ranked.ranking()

    def __call__(self, block: slice) -> Part:
        """The figures of a block."""
        return self.ranking.part(block)


def score_on(
    workers: Workers, model: PackedModel, known: Settled, rules: RankingRules
) -> Scores:
    """How well floats and codes rank: as ``gradsnap.training.scoring.score`` says."""
    coder = model.load().coder
    queries, database = (
        Labelled(embed_on(workers, model, known, part), _labels(known, part))
        for part in (known.split.queries, known.split.database)
    )
    floats, codes = (
        evaluate_on(workers, Ranked(by, queries, database, rules))
        for by in (None, coder)
    )
    return Scores(floats, codes, relative_error(coder, database.rows))


def embed_on(
    workers: Workers, model: PackedModel, known: Settled, indices: Tensor
) -> Tensor:
    """Embeddings (n, dim) of the items at indices (n,), by all workers."""
    items = Items(model, known.config.data, len(indices))
    parts = workers.run(Embedder, items, indices.split(ITEMS))
    return torch.cat(list(track(parts, "embedding")))


def evaluate_on(workers: Workers, ranked: Ranked) -> Evaluation:
    """Ranks the database for every query, by all workers."""
    ranking = ranked.ranking()
    parts = workers.run(Ranker, ranked, ranking.blocks)
    return ranking.joined(list(track(parts, "ranking")))


def _labels(known: Settled, part: Tensor) -> Tensor:
    labels = known.supervision.labels(part)
    if labels is None:
        raise InputError(f"{known.dataset.name} has no labels to score by")
    return labels

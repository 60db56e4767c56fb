"""How well floats and codes rank, by the rules of the protocol."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import Split
from gradsnap.evaluation import (
    Distances,
    EmbeddingDistances,
    Evaluation,
    ProtocolCard,
    RankingRules,
    code_distances,
    evaluate,
)
from gradsnap.training.config import TrainingConfig

LENGTHS = {"nuswide": 5000, "ilsvrc2012": 1500}
"""How many results MAP looks at, by protocol; the whole database elsewhere."""

Embed = Callable[[Tensor], Tensor]
"""Embeddings (n, dim) of the items at indices (n,)."""


class Labelled(NamedTuple):
    """Embeddings with their labels."""

    rows: Tensor
    """(n, dim)."""
    labels: Tensor
    """(n,) or multi-hot (n, L)."""


class Scores(NamedTuple):
    """What a trained network is worth on one pair of queries and database."""

    floats: Evaluation
    """Ranking by the embeddings' distances."""
    codes: Evaluation
    """Ranking by the coder's distances from queries to codes."""
    relative_error: float | None
    """Quantization error over the variance of the database's embeddings; None for
    hashes, and where there are no more items than codewords."""

    def figures(self) -> dict[str, float]:
        """The numbers of a table; a hash has no quantization error."""
        error = self.relative_error
        return {"float_map": self.floats.map, "code_map": self.codes.map} | (
            {} if error is None else {"relative_error": error}
        )


def rules_of(protocol: str | None) -> RankingRules:
    """How the paper's tables rank under a protocol; ties are in expectation."""
    return RankingRules(LENGTHS.get(protocol or ""), divisor="relevant", no_hit="zero")


def protocol_card(
    config: TrainingConfig,
    dataset: str,
    split: Split,
    rules: RankingRules,
    bits: int | None,
) -> ProtocolCard:
    """What a figure of a model depends on; ``bits`` is None for floats."""
    return ProtocolCard.of(
        dataset,
        [split],
        rules,
        seeds=[config.data.split_seed],
        network=config.network.name or "",
        method=f"{config.method.name}: {config.layer.name}, {config.coder.kind}",
        bits=bits,
        options=method_options(config),
    )


def method_options(config: TrainingConfig) -> dict[str, object]:
    """What else a figure depends on: the options of every part, and the run's seed."""
    tables = {
        f"{section}.{name}": value
        for section in ("loss", "regularizer", "layer", "coder")
        for name, value in getattr(config, section).options.items()
    }
    tables |= {
        "loss": config.loss.name,
        "regularizer": config.regularizer.name,
        "optimizer.rate": config.optimizer.rate,
        "run.steps": config.run.steps,
        "run.seed": config.run.seed,
    }
    return tables


def score(
    coder: Coder, queries: Labelled, database: Labelled, rules: RankingRules
) -> Scores:
    """Ranks the database for every query, by floats and by codes."""
    labels = queries.labels, database.labels
    floats, codes = (
        evaluate(distances_of(by, queries, database), *labels, rules)
        for by in (None, coder)
    )
    return Scores(floats, codes, relative_error(coder, database.rows))


def distances_of(
    coder: Coder | None, queries: Labelled, database: Labelled
) -> Distances:
    """What is ranked by: codes of the database, or embeddings if there is no coder."""
    if coder is None:
        return EmbeddingDistances(queries.rows, database.rows)
    return code_distances(coder, queries.rows, coder.encode(database.rows))


def relative_error(coder: Coder, rows: Tensor) -> float | None:
    """Of rows (n, dim); None where each could have a codeword of its own."""
    if len(rows) <= coder.codebook_size:
        return None
    return coder.relative_error(rows)

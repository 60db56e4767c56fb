"""How well floats and codes rank, by the rules of the protocol."""

from typing import NamedTuple

from torch import Tensor

from gradsnap.coders.quantizers import Quantizer
from gradsnap.data import Split
from gradsnap.evaluation import (
    CodeDistances,
    EmbeddingDistances,
    Evaluation,
    ProtocolCard,
    RankingRules,
    evaluate,
)
from gradsnap.training.config import TrainingConfig

LENGTHS = {"nuswide": 5000, "ilsvrc2012": 1500}
"""How many results MAP looks at, by protocol; the whole database elsewhere."""


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
    """Ranking by the distances from queries to reconstructions."""
    relative_error: float
    """Quantization error over the variance of the database's embeddings."""

    def figures(self) -> dict[str, float]:
        """The three numbers of a table."""
        return {
            "float_map": self.floats.map,
            "code_map": self.codes.map,
            "relative_error": self.relative_error,
        }


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
        method=f"{config.snapping.layer}, {config.quantizer.kind}",
        bits=bits,
    )


def score(
    quantizer: Quantizer, queries: Labelled, database: Labelled, rules: RankingRules
) -> Scores:
    """Ranks the database for every query, by floats and by codes."""
    floats = EmbeddingDistances(queries.rows, database.rows)
    codes = CodeDistances(quantizer, queries.rows, quantizer.encode(database.rows))
    labels = queries.labels, database.labels
    return Scores(
        evaluate(floats, *labels, rules),
        evaluate(codes, *labels, rules),
        relative_error(quantizer, database.rows),
    )


def relative_error(quantizer: Quantizer, rows: Tensor) -> float:
    """Quantization error of rows (n, dim) over their variance."""
    spread = (rows - rows.mean(dim=0)).double().square().sum(dim=1).mean()
    return quantizer.error(rows) / max(float(spread), 1e-30)

"""What an evaluation found: one figure a query, curves, and the rules behind them."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.evaluation.confidence import Interval, bootstrap
from gradsnap.evaluation.rules import RankingRules


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures of all queries under one set of rules."""

    rules: RankingRules
    """What the figures mean."""

    average_precisions: Tensor
    """Of each query, float64 (q,); NaN where the query is left out."""

    points: tuple[int, ...]
    """The N of ``precision`` and ``recall``."""

    precision: tuple[float, ...]
    """Mean precision at each N."""

    recall: tuple[float, ...]
    """Mean recall at each N; with ``precision`` it is the precision–recall curve."""

    without_hit: int
    """Queries that have no relevant item within the ranking."""

    ndcg: float | None = None
    """Mean nDCG with gains ``2^grade − 1``; only with several labels an item."""

    radius_precision: float | None = None
    """Mean precision within Hamming radius 2, zero where it is empty; only hashes."""

    @property
    def map(self) -> float:
        """Mean average precision.

        Raises:
            InputError: every query was left out.
        """
        counted = ~self.average_precisions.isnan()
        if not counted.any():
            raise InputError("no query has a hit, and the rules leave such queries out")
        return float(self.average_precisions[counted].mean())

    def interval(self, level: float = 0.95, seed: int = 0) -> Interval:
        """Bootstrap interval of the MAP over queries."""
        return bootstrap(self.average_precisions, level=level, seed=seed)

    def record(self) -> dict[str, Any]:
        """Plain values without the single queries, for JSON."""
        low, high = self.interval()
        return {
            "map": self.map,
            "map_interval_95": [low, high],
            "rules": self.rules.record(),
            "queries": len(self.average_precisions),
            "queries_without_hit": self.without_hit,
            "points": list(self.points),
            "precision": list(self.precision),
            "recall": list(self.recall),
            "ndcg": self.ndcg,
            "radius_2_precision": self.radius_precision,
        }

    def __str__(self) -> str:
        low, high = self.interval()
        lines = [
            f"MAP {self.map:.4f} (95 % over queries: {low:.4f} to {high:.4f})",
            f"rules: {self.rules}",
            f"queries without a hit: {self.without_hit} of "
            f"{len(self.average_precisions)}",
        ]
        if self.ndcg is not None:
            lines.append(f"nDCG {self.ndcg:.4f}")
        if self.radius_precision is not None:
            lines.append(
                f"precision within Hamming radius 2 {self.radius_precision:.4f}"
            )
        return "\n".join(lines)

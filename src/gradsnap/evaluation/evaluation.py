"""Evaluation by blocks of queries: every metric of a ranking in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError
from gradsnap.evaluation.card import RankingRules
from gradsnap.evaluation.confidence import Interval, bootstrap
from gradsnap.evaluation.distances import Distances, Ranked
from gradsnap.evaluation.grades import Grades
from gradsnap.evaluation.metrics import (
    average_precisions,
    discounted_gains,
    hits_at,
    ideal_gains,
    with_hit,
)
from gradsnap.progress import track

POINTS_PER_DECADE = 8


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


@torch.no_grad()
def evaluate(
    distances: Distances,
    query_labels: Given,
    database_labels: Given,
    rules: RankingRules,
    *,
    points: Sequence[int] | None = None,
    graded: bool | None = None,
) -> Evaluation:
    """Ranks the database for every query and measures the rankings.

    Holds one block of distances at a time, about 32 MiB (or one query's, if that is
    more), never queries x database. With hashes it counts and holds no distances.

    Args:
        distances: of q queries to n items; what is ranked.
        query_labels: int64 (q,), or multi-hot bool (q, L).
        database_labels: int64 (n,), or multi-hot bool (n, L).
        rules: the length of the ranking, the divisor, queries without a hit.
        points: the N of precision and recall at N; spread over decades if not given.
        graded: whether to compute nDCG; by default where items have several labels.

    Example:
        >>> from gradsnap.evaluation import EmbeddingDistances
        >>> x = torch.tensor([[0.0], [1.0], [2.0], [9.0]])
        >>> found = evaluate(
        ...     EmbeddingDistances(x[:1], x[1:]),
        ...     torch.tensor([0]),
        ...     torch.tensor([0, 1, 0]),
        ...     RankingRules(None, divisor="relevant", no_hit="zero"),
        ... )
        >>> f"{found.map:.4f}"
        '0.8333'
    """
    query_labels, database_labels = as_tensor(query_labels), as_tensor(database_labels)
    ranking = Ranking.of(
        distances, query_labels, database_labels, rules, points=points, graded=graded
    )
    parts = [ranking.part(block) for block in track(ranking.blocks, "ranking")]
    return ranking.joined(parts)


@dataclass(frozen=True, eq=False)
class Ranking:
    """All that is measured, cut into blocks of queries that do not depend on others."""

    distances: Distances
    grades: Grades
    rules: RankingRules
    points: Tensor
    """The N of precision and recall, int64 (p,)."""

    @classmethod
    def of(
        cls,
        distances: Distances,
        query_labels: Tensor,
        database_labels: Tensor,
        rules: RankingRules,
        *,
        points: Sequence[int] | None = None,
        graded: bool | None = None,
    ) -> "Ranking":
        """The arguments of ``evaluate``, checked."""
        _check_counts(distances, query_labels, database_labels)
        device = distances.device
        grades = Grades(
            query_labels.to(device),
            database_labels.to(device),
            query_labels.ndim == 2 if graded is None else graded,
        )
        ns = curve_points(points, rules.cut(distances.num_items))
        return cls(distances, grades, rules, torch.tensor(ns, device=device))

    @property
    def blocks(self) -> list[slice]:
        """Queries that are ranked together."""
        rows = self.distances.block_rows
        starts = range(0, self.distances.num_queries, rows)
        return [slice(start, start + rows) for start in starts]

    @torch.no_grad()
    def part(self, block: slice) -> "Part":
        """The figures of one block."""
        cut = self.rules.cut(self.distances.num_items)
        ranked = self.distances.rank(block, self.grades, cut)
        return _measure(ranked, self.rules, cut, self.points, self.grades.graded)

    def joined(self, parts: Sequence["Part"]) -> Evaluation:
        """The figures of all blocks, in order, together."""
        return _join(parts, self.rules, self.points)


class Part(NamedTuple):
    """Figures of one block of queries, each (b, …) on the CPU."""

    precisions: Tensor
    hits: Tensor
    totals: Tensor
    hit: Tensor
    ndcg: Tensor
    within: Tensor


def _measure(
    ranked: Ranked, rules: RankingRules, cut: int, ns: Tensor, graded: bool
) -> Part:
    """Every figure of one block, at the points ns (p,)."""
    groups, counts, within = ranked
    totals = counts[:, 1:].sum(dim=1)
    ndcg = nothing = torch.empty(0, dtype=torch.float64)
    if graded:
        ideal = ideal_gains(counts, cut)
        ndcg = discounted_gains(groups, cut) / ideal.where(ideal > 0, 1.0)
    found = average_precisions(groups, totals, rules, cut)
    return Part(
        precisions=found.cpu(),
        hits=hits_at(groups, ns).cpu(),
        totals=totals.cpu(),
        hit=with_hit(groups, cut).cpu(),
        ndcg=ndcg.cpu(),
        within=nothing if within is None else within.cpu(),
    )


def _join(parts: Sequence[Part], rules: RankingRules, ns: Tensor) -> Evaluation:
    """The figures of all blocks together."""
    columns = zip(*parts, strict=True)
    precisions, hits, totals, hit, ndcg, within = map(torch.cat, columns)
    kept = torch.ones_like(hit) if rules.no_hit == "zero" else hit
    recall = hits / totals.clamp_min(1)[:, None]  # (q, p)
    return Evaluation(
        rules=rules,
        average_precisions=precisions,
        points=tuple(ns.tolist()),
        precision=_mean(hits / ns.cpu(), kept),
        recall=_mean(recall, kept),
        without_hit=int((~hit).sum()),
        ndcg=_mean(ndcg[:, None], kept)[0] if len(ndcg) else None,
        radius_precision=float(within.mean()) if len(within) else None,
    )


def _mean(values: Tensor, kept: Tensor) -> tuple[float, ...]:
    """Means over the kept queries of values (q, p)."""
    if not kept.any():
        return (float("nan"),) * values.shape[1]
    means: list[float] = values[kept].mean(dim=0).tolist()
    return tuple(means)


def curve_points(points: Sequence[int] | None, cut: int) -> list[int]:
    """The N to measure at, ascending and within the ranking."""
    if points is None:
        steps = range(POINTS_PER_DECADE * len(str(cut)) + 1)
        spread = {round(10 ** (step / POINTS_PER_DECADE)) for step in steps}
        return sorted({n for n in spread if n < cut} | {cut})
    wrong = [n for n in points if not 1 <= n <= cut]
    if wrong:
        raise InputError(f"points must lie in 1..{cut}, the ranking; got {wrong[0]}")
    return sorted(set(points))


def _check_counts(distances: Distances, queries: Tensor, database: Tensor) -> None:
    counts = distances.num_queries, distances.num_items
    if 0 in counts:
        raise InputError(f"nothing to rank: {counts[0]} queries, {counts[1]} items")
    if (len(queries), len(database)) != counts:
        raise InputError(
            f"{len(queries)} query labels and {len(database)} database labels for "
            f"{counts[0]} queries and {counts[1]} items"
        )

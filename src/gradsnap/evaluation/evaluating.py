"""Evaluation by blocks of queries: every metric of a ranking in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.evaluation.distances import Distances, Ranked
from gradsnap.evaluation.grades import Grades
from gradsnap.evaluation.metrics import (
    average_precisions,
    discounted_gains,
    hits_at,
    ideal_gains,
    with_hit,
)
from gradsnap.evaluation.result import Evaluation
from gradsnap.evaluation.rules import RankingRules
from gradsnap.progress import track

POINTS_PER_DECADE = 8


@torch.no_grad()
def evaluate(
    distances: Distances,
    query_labels: Tensor,
    database_labels: Tensor,
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
    _check_counts(distances, query_labels, database_labels)
    several = query_labels.ndim == 2
    device = distances.device
    grades = Grades(
        query_labels.to(device),
        database_labels.to(device),
        several if graded is None else graded,
    )
    cut = rules.cut(distances.num_items)
    ns = torch.tensor(checked_points(points, cut), device=device)
    rows = distances.block_rows
    starts = range(0, distances.num_queries, rows)
    parts = []
    for start in track(starts, "ranking"):
        block = slice(start, start + rows)
        ranked = distances.ranked(block, grades, cut)
        parts.append(_measured(ranked, rules, cut, ns, grades.graded))
    return _joined(parts, rules, ns)


@dataclass(frozen=True, eq=False)
class _Part:
    """Figures of one block of queries, each (b, …) on the CPU."""

    precisions: Tensor
    hits: Tensor
    totals: Tensor
    hit: Tensor
    ndcg: Tensor
    within: Tensor


def _measured(
    ranked: Ranked, rules: RankingRules, cut: int, ns: Tensor, graded: bool
) -> _Part:
    groups, counts, within = ranked
    totals = counts[:, 1:].sum(dim=1)
    ndcg = nothing = torch.empty(0, dtype=torch.float64)
    if graded:
        ideal = ideal_gains(counts, cut)
        ndcg = discounted_gains(groups, cut) / ideal.where(ideal > 0, 1.0)
    found = average_precisions(groups, totals, rules, cut)
    return _Part(
        precisions=found.cpu(),
        hits=hits_at(groups, ns).cpu(),
        totals=totals.cpu(),
        hit=with_hit(groups, cut).cpu(),
        ndcg=ndcg.cpu(),
        within=nothing if within is None else within.cpu(),
    )


def _joined(parts: list[_Part], rules: RankingRules, ns: Tensor) -> Evaluation:
    totals, hit = (
        torch.cat([p.totals for p in parts]),
        torch.cat([p.hit for p in parts]),
    )
    hits = torch.cat([part.hits for part in parts])  # (q, p)
    within = torch.cat([part.within for part in parts])
    kept = torch.ones_like(hit) if rules.no_hit == "zero" else hit
    ndcg = torch.cat([part.ndcg for part in parts])
    recall = hits / totals.clamp_min(1)[:, None]
    return Evaluation(
        rules=rules,
        average_precisions=torch.cat([part.precisions for part in parts]),
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


def checked_points(points: Sequence[int] | None, cut: int) -> list[int]:
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

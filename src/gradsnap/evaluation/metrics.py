"""Metrics of rankings with ties, in expectation over random orders of tied items.

For a group of n items at one distance, r of them relevant, after N nearer items of
which H are relevant, the item at place j of the group is relevant with probability
r / n, and then the expected precision there is (H + 1 + (j − 1)(r − 1)/(n − 1)) /
(N + j). Summed over j that is a line in j over N + j, so harmonic numbers give it
without a loop. No order is drawn, and no group is unrolled.
"""

from functools import lru_cache

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError
from gradsnap.evaluation.card import RankingRules
from gradsnap.evaluation.groups import (
    ROW_STRIDE,
    Groups,
    groups_of_ranked,
    kernel_for,
)

CHUNK_ROWS = 1024
"""Rankings whose cut falls into a tie group that are weighed at once."""


def mean_average_precision(relevant: Given, total_relevant: Given) -> Tensor:
    """Mean over queries of the average precision of their ranked results.

    A query's average precision is the sum of the precision at each relevant result,
    divided by how many relevant items there are, or by k if that is less. A query with
    nothing to find counts as zero.

    Args:
        relevant: whether each result is relevant, in ranked order, (q, k), bool.
        total_relevant: relevant items in the database for each query, (q,).

    Returns:
        A scalar in 0 to 1.

    Example:
        >>> ranked = torch.tensor([[True, False, True]])
        >>> mean_average_precision(ranked, torch.tensor([2]))
        tensor(0.8333, dtype=torch.float64)
    """
    relevant, total_relevant = as_tensor(relevant), as_tensor(total_relevant)
    if relevant.ndim != 2 or total_relevant.shape != relevant.shape[:1]:
        raise InputError(
            f"expected relevant (q, k) and total_relevant (q,), got "
            f"{tuple(relevant.shape)} and {tuple(total_relevant.shape)}"
        )
    cut = max(relevant.shape[1], 1)
    return _over_relevant(groups_of_ranked(relevant), total_relevant, cut).mean()


def recall_at(found: Given, exact: Given, k: int) -> float:
    """Recall@k: the share of exact neighbours among the first k that were found.

    Args:
        found: ranked item numbers, (q, at least k); −1 where there is no result.
        exact: the true neighbours, (q, r), no number twice in a row; r = 1 asks for
            the nearest alone.
        k: how many results are looked at.

    Example:
        >>> recall_at(torch.tensor([[3, 1, 2]]), torch.tensor([[1, 0]]), k=2)
        0.5
    """
    found, exact = as_tensor(found), as_tensor(exact)
    if found.ndim != 2 or exact.ndim != 2 or len(found) != len(exact):
        raise InputError(
            f"expected found (q, k) and exact (q, r), got {tuple(found.shape)} and "
            f"{tuple(exact.shape)}"
        )
    if not 1 <= k <= found.shape[1]:
        raise InputError(f"k must be 1 to {found.shape[1]}, what was found; got {k}")
    if exact.numel() == 0:
        raise InputError("there are no exact neighbours to look for")
    total = 0
    for ours, theirs in zip(found[:, :k].split(256), exact.split(256), strict=True):
        total += int((ours[:, :, None] == theirs[:, None]).any(dim=1).sum())
    return total / exact.numel()


def average_precisions(
    groups: Groups, total_relevant: Tensor, rules: RankingRules, cut: int
) -> Tensor:
    """Expected average precision of each query, float64 (q,).

    Args:
        groups: of q queries, complete up to rank ``cut``.
        total_relevant: relevant items in the database, (q,).
        rules: divisor, and what becomes of queries without a hit (NaN if left out).
        cut: R, the length of the ranking.
    """
    if rules.divisor == "found":
        found = _over_found(groups, cut)
    else:
        found = _over_relevant(groups, total_relevant, cut)
    if rules.no_hit == "zero":
        return found
    return found.masked_fill(~with_hit(groups, cut), float("nan"))


def with_hit(groups: Groups, cut: int) -> Tensor:
    """Whether a query can have a relevant item among the first ``cut``, bool (q,)."""
    hit = torch.zeros(groups.queries, dtype=torch.bool, device=groups.rows.device)
    hit[groups.rows[groups.starts < cut]] = True
    return hit


def hits_at(groups: Groups, points: Tensor) -> Tensor:
    """Expected relevant items among the first N, for N in points (p,): (q, p)."""
    every = torch.arange(groups.queries, device=points.device)[:, None]
    lined_up = groups.rows * ROW_STRIDE + groups.starts  # ascending
    wanted = every * ROW_STRIDE + points  # (q, p)
    at = torch.searchsorted(lined_up, wanted) - 1  # the last group that starts before
    known = (at >= 0) & (at < len(lined_up))
    if not len(lined_up):
        return torch.zeros(wanted.shape, dtype=torch.float64, device=points.device)
    at = at.clamp_min(0)
    share = (points - groups.starts[at]).double() / groups.sizes[at]
    hits = groups.before[at] + groups.hits[at] * share.clamp(0, 1)
    return hits * (known & (groups.rows[at] == every))


def discounted_gains(groups: Groups, cut: int) -> Tensor:
    """Expected sum of ``(2^grade − 1) / log2(1 + rank)`` up to ``cut``, (q,)."""
    sums = discount_sums(cut, groups.rows.device)
    low = groups.starts.clamp_max(cut)
    high = (groups.starts + groups.sizes).clamp_max(cut)
    return _by_query(groups, groups.gains / groups.sizes * (sums[high] - sums[low]))


def ideal_gains(grade_counts: Tensor, cut: int) -> Tensor:
    """The same of the best order there is, (q,).

    Args:
        grade_counts: items of each grade in the database, int64 (q, grades).
        cut: R, the length of the ranking.
    """
    sums = discount_sums(cut, grade_counts.device)
    best_first = grade_counts.flip(1)
    ends = best_first.cumsum(dim=1).clamp_max(cut)
    starts = (best_first.cumsum(dim=1) - best_first).clamp_max(cut)
    grades = torch.arange(grade_counts.shape[1], device=sums.device).flip(0)
    return ((sums[ends] - sums[starts]) * (2.0**grades - 1)).sum(dim=1)


def precision_sums(groups: Groups, cut: int) -> Tensor:
    """Expected sum of the precision at each hit of a group up to ``cut``, (g,)."""
    places = (cut - groups.starts).clamp(min=0).minimum(groups.sizes)
    return _line_sums(
        groups.starts.clamp_max(cut), places, groups.sizes, groups.hits, groups.before
    )


def _line_sums(
    starts: Tensor, places: Tensor, sizes: Tensor, hits: Tensor, before: Tensor
) -> Tensor:
    """(r/n) Σⱼ (H + 1 + (j − 1)(r − 1)/(n − 1)) / (N + j) for j up to ``places``."""
    reach = int((starts + places).max()) if starts.numel() else 0
    harmonic = harmonic_numbers(reach, starts.device)
    kernel = kernel_for(starts)
    if kernel is not None and starts.ndim == 1:
        fields = (starts, places, sizes, hits, before)
        sums = torch.empty(len(starts), dtype=torch.float64)
        arrays = tuple(field.numpy() for field in fields)
        kernel.line_sums(arrays, harmonic.numpy(), sums.numpy())
        return sums
    slope = (hits - 1) / (sizes - 1).clamp_min(1).double()
    rest = harmonic[starts + places] - harmonic[starts]
    line = slope * places + (before + 1 - slope * (1 + starts)) * rest
    return hits / sizes.clamp_min(1).double() * line


def _over_relevant(groups: Groups, total_relevant: Tensor, cut: int) -> Tensor:
    """Expected average precision over the number of hits there could be, (q,)."""
    reachable = total_relevant.clamp(1, cut)
    return _by_query(groups, precision_sums(groups, cut)) / reachable


def _over_found(groups: Groups, cut: int) -> Tensor:
    """Expected average precision over the number of hits found, (q,)."""
    whole = groups.starts + groups.sizes <= cut
    sums = _by_query(groups, precision_sums(groups, cut) * whole)
    hits = _by_query(groups, (groups.hits * whole).double())
    result = sums / hits.clamp_min(1)
    parted = (~whole & (groups.starts < cut)).nonzero().squeeze(1)
    for some in parted.split(CHUNK_ROWS) if len(parted) else ():
        rows = groups.rows[some]
        result[rows] = _over_outcomes(groups, some, sums[rows], cut)
    return result


def _over_outcomes(groups: Groups, at: Tensor, sums: Tensor, cut: int) -> Tensor:
    """Weighs every number of hits a group (c,) that the cut divides can bring: (c,)."""
    starts, before = groups.starts[at, None], groups.before[at, None]  # (c, 1)
    sizes, hits = groups.sizes[at, None], groups.hits[at, None]
    places = cut - starts
    most = int(torch.minimum(places, hits).max())
    drawn = torch.arange(most + 1, device=at.device)  # (o,), hits within the cut
    chance = _hypergeometric(sizes, hits, places, drawn)  # (c, o)
    gained = _line_sums(starts, places, places, drawn, before)
    value = (sums[:, None] + gained) / (before + drawn).clamp_min(1)
    return (chance * value).sum(dim=1)


def _hypergeometric(
    sizes: Tensor, hits: Tensor, places: Tensor, drawn: Tensor
) -> Tensor:
    """Chance of ``drawn`` hits in ``places`` of a shuffled group; all broadcast."""
    possible = (drawn <= hits) & (drawn <= places) & (places - drawn <= sizes - hits)
    log = (
        _log_choose(hits, drawn)
        + _log_choose(sizes - hits, places - drawn)
        - _log_choose(sizes, places)
    )
    return torch.where(possible, log.exp(), 0.0)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    one = torch.ones((), dtype=torch.float64, device=n.device)
    above, below = n.clamp_min(0) + one, k.clamp_min(0) + one
    return above.lgamma() - below.lgamma() - ((n - k).clamp_min(0) + one).lgamma()


def _by_query(groups: Groups, values: Tensor) -> Tensor:
    """Sums of the groups' values (g,) for each query, float64 (q,)."""
    total = torch.zeros(groups.queries, dtype=torch.float64, device=values.device)
    return total.index_add_(0, groups.rows, values)


@lru_cache(maxsize=4)
def harmonic_numbers(count: int, device: torch.device) -> Tensor:
    """0, 1, 1 + 1/2, … up to ``count`` terms, float64 (count + 1,)."""
    terms = torch.arange(count + 1, dtype=torch.float64, device=device)
    terms[1:] = 1 / terms[1:]
    return terms.cumsum(0)


@lru_cache(maxsize=4)
def discount_sums(count: int, device: torch.device) -> Tensor:
    """0 and sums of ``1 / log2(1 + rank)`` up to ``count``, float64 (count + 1,)."""
    ranks = torch.arange(count + 1, dtype=torch.float64, device=device)
    ranks[1:] = 1 / (1 + ranks[1:]).log2()
    return ranks.cumsum(0)

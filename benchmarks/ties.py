"""Expected average precision beside the mean over 10,000 random orders of ties."""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.report import Bar, Row
from benchmarks.vectors import Setting
from gradsnap.coders import hamming_distances, packed_bits
from gradsnap.evaluation import (
    HashDistances,
    RankingRules,
    evaluate,
    mean_average_precision,
)

ORDERS, QUERIES, ITEMS, CLASSES = 10_000, 3, 1000, 5
BAR = Bar("≤", 1e-3)
CASES = ((8, None, "relevant"), (8, 100, "relevant"), (8, 100, "found"))


def run(setting: Setting) -> Iterator[Row]:
    """The largest gap over queries; beside it what array order would have said."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (QUERIES + ITEMS,), generator=generator)
    for bits, length, divisor in CASES:
        weak = torch.randn(CLASSES, bits, generator=generator)[labels]
        noise = torch.randn(len(labels), bits, generator=generator)
        hashes = packed_bits(0.6 * weak + noise > 0)
        asked, items = hashes[:QUERIES], hashes[QUERIES:]
        rules = RankingRules(length, divisor, "zero")  # type: ignore[arg-type]
        table = HashDistances(asked, items)
        found = evaluate(table, labels[:QUERIES], labels[QUERIES:], rules)
        relevant = labels[:QUERIES, None] == labels[QUERIES:]
        levels = hamming_distances(asked, items)
        orders = setting.repeats(ORDERS) if setting.quick else ORDERS
        drawn = [
            _mean_over_orders(levels[q], relevant[q], rules, orders, generator)
            for q in range(QUERIES)
        ]
        gap = float((found.average_precisions - torch.tensor(drawn)).abs().max())
        swing = _swing(levels, relevant, rules)
        what = f"{bits} bits, {ITEMS} items, {rules}"
        note = f"the order of ties can move AP by {swing:.3f}; {orders:,} orders"
        yield Row(what, gap, bar=BAR, note=note)


def _mean_over_orders(
    levels: Tensor,
    relevant: Tensor,
    rules: RankingRules,
    orders: int,
    generator: torch.Generator,
) -> float:
    """Mean AP over random orders of the ties of one query; levels, relevant (n,)."""
    total = 0.0
    for count in [1000] * (orders // 1000) or [orders]:
        keys = levels + torch.rand(count, len(levels), generator=generator)
        ranked = relevant[keys.argsort(dim=1)][:, : rules.length]
        total += count * float(
            mean_average_precision(ranked, _found(ranked, relevant, rules))
        )
    return total / orders


def _found(ranked: Tensor, relevant: Tensor, rules: RankingRules) -> Tensor:
    if rules.divisor == "found":
        return ranked.sum(dim=1)
    return relevant.sum().expand(len(ranked))


def _swing(levels: Tensor, relevant: Tensor, rules: RankingRules) -> float:
    """How far the best and the worst order of ties of a query are apart, at most."""
    ends = []
    for sign in (-0.5, 0.5):
        order = (levels + sign * relevant).argsort(dim=1)
        ranked = relevant.gather(1, order)[:, : rules.length]
        divisor = ranked.sum(1) if rules.divisor == "found" else relevant.sum(1)
        aps = [
            mean_average_precision(ranked[q : q + 1], divisor[q : q + 1])
            for q in range(len(levels))
        ]
        ends.append(torch.stack(aps))
    return float((ends[0] - ends[1]).max())

"""MAP over whole rankings, beside scikit-learn's loop and argsort in torch."""

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from benchmarks.report import Bar, Row, faster, noted
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from gradsnap.coders import packed_bits
from gradsnap.evaluation import (
    Distances,
    HashDistances,
    RankingRules,
    evaluate,
)
from gradsnap.evaluation.grades import Grades
from gradsnap.evaluation.metrics import average_precisions

QUERIES, ITEMS, CLASSES, BITS = 1000, 59_000, 10, 32
BAR = Bar("≥", 5)
RULES = RankingRules(None, "relevant", "zero")
ARGSORT_ROWS = 100
"""Queries that torch sorts at once, which suits its cache."""


class Given(Distances):
    """Distances that are there already, (q, n), so that only ranking is timed."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.device = table, table.device
        self.num_queries, self.num_items = table.shape

    def block(self, rows: slice) -> Tensor:
        """Distances of some queries, (b, n)."""
        return self.table[rows]


def run(setting: Setting) -> Iterator[Row]:
    """All three get the same distances; hashes are timed with their distances."""
    queries, items = setting.rows(QUERIES), setting.rows(ITEMS)
    generator = torch.Generator().manual_seed(0)
    asked = torch.randint(CLASSES, (queries,), generator=generator)
    labels = torch.randint(CLASSES, (items,), generator=generator)
    table = torch.randn(queries, items, generator=generator).square_()
    found: dict[str, float] = {}
    calls = {
        "ours": lambda: found.update(ours=ours(table, asked, labels)),
        "full": lambda: evaluate(Given(table), asked, labels, RULES),
        "argsort": lambda: found.update(argsort=argsort(table, asked, labels)),
        "sklearn": lambda: found.update(sklearn=sklearn(table, asked, labels)),
    }
    times = best_interleaved(calls, setting.repeats(3))
    size = f"{queries:,} x {items:,} distances"
    for peer in ("sklearn", "argsort"):
        gap = abs(found["ours"] - found[peer])
        row = faster(f"MAP of {size}, beside {peer}", times["ours"], times[peer], BAR)
        yield noted(row, f"MAP {found['ours']:.6f}, differs by {gap:.1e} (ties)")
        yield faster(f"with curves, beside {peer}", times["full"], times[peer])
    yield from _hashes(setting, asked, labels, times)


def ours(table: Tensor, asked: Tensor, labels: Tensor) -> float:
    """MAP alone."""
    source, grades = Given(table), Grades(asked, labels)
    parts = []
    for start in range(0, len(table), source.block_rows):
        rows = slice(start, start + source.block_rows)
        groups, counts, _ = source.rank(rows, grades, table.shape[1])
        parts.append(average_precisions(groups, counts[:, 1], RULES, table.shape[1]))
    return float(torch.cat(parts).mean())


def argsort(table: Tensor, asked: Tensor, labels: Tensor) -> float:
    """The usual torch: sort, gather, cumulate."""
    total, ranks = 0.0, torch.arange(1, table.shape[1] + 1)
    for rows in range(0, len(table), ARGSORT_ROWS):
        part, mine = (
            table[rows : rows + ARGSORT_ROWS],
            asked[rows : rows + ARGSORT_ROWS],
        )
        relevant = labels[part.argsort(dim=1)] == mine[:, None]
        precision = relevant.cumsum(dim=1).double() / ranks
        sums = (precision * relevant).sum(dim=1) / relevant.sum(dim=1).clamp_min(1)
        total += float(sums.sum())
    return total / len(table)


def sklearn(table: Tensor, asked: Tensor, labels: Tensor) -> float:
    """scikit-learn's average precision, query by query."""
    values, theirs = table.numpy(), labels.numpy()
    found = [
        average_precision_score(theirs == int(mine), -row)
        for mine, row in zip(asked, values, strict=True)
    ]
    return float(np.mean(found))


def _hashes(
    setting: Setting, asked: Tensor, labels: Tensor, times: dict[str, float]
) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(1)
    made = torch.rand(len(asked) + len(labels), BITS, generator=generator) < 0.5
    hashes = packed_bits(made)
    table = HashDistances(hashes[: len(asked)], hashes[len(asked) :])
    call = {"ours": lambda: evaluate(table, asked, labels, RULES)}
    counted = best_interleaved(call, setting.repeats(3))["ours"]
    for peer in ("sklearn", "argsort"):
        row = faster(f"{BITS}-bit hashes, beside {peer}", counted, times[peer])
        yield noted(row, "ours with Hamming distances and curves; the peer without")

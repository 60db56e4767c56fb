"""Searches limited to 1 % and 50 % of a million items, beside unfiltered ones."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks import databases
from benchmarks.databases import MILLION, rows_of, threads
from benchmarks.report import Bar, Row, noted, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from gradsnap.index import ExhaustiveIndex, InvertedIndex

K = 10
LISTS, PROBES = 1024, 16
NEVER_SLOWER = Bar("≥", 1 / 1.2)
TEN_TIMES = Bar("≥", 10.0)
LABELS = 100
"""Every hundredth item has label 0, half of them one below 50."""

Given = dict[str, Any]


def run(setting: Setting) -> Iterator[Row]:
    """64-bit codes, and 32 bits as 8 x 16; filters are scattered over all items."""
    for books, words in ((8, 256), (8, 16)):
        for name, index in _indexes(setting, books, words):
            say(f"filters: {name}, {books} x {words} …")
            yield from _shares(setting, f"{name}, {books} x {words}", index)


def _indexes(setting: Setting, books: int, words: int) -> Iterator[tuple[str, Any]]:
    rows = rows_of(setting, MILLION)
    quantizer = databases.fitted(books, words)
    codes = databases.many_codes(quantizer, rows)
    labels = _labels(rows)
    metadata = {"label": labels.tolist()}
    yield "exhaustive", ExhaustiveIndex(quantizer).add_codes(codes, metadata=metadata)
    count = 64 if setting.quick else LISTS
    lists = InvertedIndex(quantizer, num_lists=count, probes=PROBES)
    lists.fit(databases.realistic(16 * count, seed=6))
    chosen = torch.randint(count, (rows,), generator=torch.Generator().manual_seed(7))
    yield "lists", lists.add_codes(codes, lists=chosen, metadata=metadata)


def _labels(rows: int) -> Tensor:
    return torch.randint(LABELS, (rows,), generator=torch.Generator().manual_seed(8))


def _shares(setting: Setting, what: str, index: Any) -> Iterator[Row]:
    labels = _labels(len(index))
    for share, below in (("1 %", 1), ("50 %", LABELS // 2)):
        ids = (labels < below).nonzero()[:, 0]
        ways: dict[str, Given] = {
            "ids": {"within": ids},
            "where": {"where": f"label < {below}"},
            "prepared": {"within": index.filter(ids)},
        }
        for batch in (1, databases.QUERIES):
            queries = databases.queries()[:batch]
            yield from _rows(setting, f"{what}, {share}", index, queries, ways)


def _rows(
    setting: Setting, what: str, index: Any, queries: Tensor, ways: dict[str, Given]
) -> Iterator[Row]:
    def call(options: Given) -> Any:
        return lambda: index.search(queries, K, **options)

    calls = {name: call(options) for name, options in ways.items()}
    found = {name: one() for name, one in calls.items()}
    equal = all(torch.equal(one.ids, found["ids"].ids) for one in found.values())
    calls["all"] = call({})
    with threads(1):
        repeats = setting.repeats(100 if len(queries) == 1 else 7)
        best = best_interleaved(calls, repeats)
    few = "1 %" in what and "exhaustive" in what
    bar = TEN_TIMES if few else NEVER_SLOWER
    for name in ways:
        row = Row(
            f"{what} by {name}, {len(queries)} queries / unfiltered",
            len(queries) / best[name],
            len(queries) / best["all"],
            "queries/s",
            best["all"] / best[name],
            bar,
            fair=equal,
        )
        yield noted(row, "" if equal else "the ways of filtering differ")

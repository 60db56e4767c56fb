"""IVFADC and the multi-index at recall .95 of the exhaustive scan, 1 M vectors."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor

from benchmarks import databases
from benchmarks.databases import threads
from benchmarks.report import Bar, Row, noted, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from gradsnap.index import ExhaustiveIndex, InvertedIndex, MultiIndex

K, TARGET = 100, 0.95
BAR = Bar("≥", 10.0)


def run(setting: Setting) -> Iterator[Row]:
    """Plain codes of 64 bits, so that all three rank the same reconstructions."""
    for name, clusters in databases.CLUSTERS.items():
        x = databases.database(setting, clusters)
        queries = databases.queries(clusters)
        quantizer = databases.fitted(8, 256)
        codes = quantizer.encode(x)
        whole = ExhaustiveIndex(quantizer).add_codes(codes)
        peer = databases.faiss_pq(quantizer, codes)
        truth = whole.search(queries, K).ids
        for index in _indexes(setting):
            say(f"lists: {type(index).__name__}, {index.num_lists:,} lists, {name} …")
            index.fit(x[:131_072])
            index.add_codes(codes, index.lists_of(x))
            tuning = index.tune(queries, truth, TARGET)
            reached = next(t.recall for t in tuning.curve if t.probes == tuning.probes)
            note = f"{tuning.probes} of {index.num_lists:,} lists, recall {reached:.3f}"
            for row in _timed(setting, (index, whole, peer), queries):
                yield noted(replace(row, what=f"{row.what}, {name}"), note)


def _timed(
    setting: Setting, indexes: tuple[Any, Any, Any], queries: Tensor
) -> Iterator[Row]:
    for used in (1, 2):
        for batch in (1, len(queries)):
            what = f"{type(indexes[0]).__name__}, {batch} queries, {used} threads"
            with threads(used):
                yield from _rows(setting, what, indexes, queries[:batch])


def _indexes(setting: Setting) -> list[Any]:
    quantizer = databases.fitted(8, 256)
    lists, words = (64, 8) if setting.quick else (2048, 128)
    return [
        InvertedIndex(quantizer, num_lists=lists),
        MultiIndex(quantizer, codewords=words),
    ]


def _rows(
    setting: Setting, what: str, indexes: tuple[Any, Any, Any], queries: Tensor
) -> Iterator[Row]:
    index, whole, peer = indexes
    calls = {
        "lists": lambda: index.search(queries, K),
        "whole": lambda: whole.search(queries, K),
        "faiss": lambda: peer.search(queries.numpy(), K),
    }
    best = best_interleaved(calls, setting.repeats(3))
    speeds = {name: len(queries) / best[name] for name in calls}
    for name, against in (("whole", "our exhaustive scan"), ("faiss", "FAISS IndexPQ")):
        ratio = speeds["lists"] / speeds[name]
        bar = BAR if name == "whole" or len(queries) > 1 else None
        yield Row(
            f"{what} / {against}",
            speeds["lists"],
            speeds[name],
            "queries/s",
            ratio,
            bar,
        )

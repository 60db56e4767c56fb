"""IVFADC and the multi-index at recall .95 of the exhaustive scan, 1 M vectors."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from benchmarks import databases
from benchmarks.databases import threads
from benchmarks.digits_million import DIM, million
from benchmarks.report import Bar, Row, noted, say, skipped
from benchmarks.timing import best_interleaved
from benchmarks.vectors import MissingData, Setting
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.index import ExhaustiveIndex, InvertedIndex, MultiIndex

K, TARGET = 100, 0.95
BAR = Bar("≥", 10.0)


class Work(NamedTuple):
    """Vectors, their quantizer, and whether the bar is judged on them."""

    name: str
    database: Tensor
    queries: Tensor
    quantizer: ProductQuantizer
    judged: bool


def run(setting: Setting) -> Iterator[Row]:
    """Plain codes of 64 bits, so that all three rank the same reconstructions.

    The bar is judged on images; clusters are made up, and only reported.
    """
    for work in _works(setting):
        if isinstance(work, Row):
            yield work
            continue
        codes = work.quantizer.encode(work.database)
        whole = ExhaustiveIndex(work.quantizer).add_codes(codes)
        peer = databases.faiss_pq(work.quantizer, codes)
        truth = whole.search(work.queries, K).ids
        for index in _indexes(setting, work.quantizer):
            kind = type(index).__name__
            say(f"lists: {kind}, {index.num_lists:,} lists, {work.name} …")
            index.fit(work.database[:131_072])
            index.add_codes(codes, lists=index.lists_of(work.database))
            tuning = index.tune(work.queries, truth, TARGET)
            reached = next(t.recall for t in tuning.curve if t.probes == tuning.probes)
            note = f"{tuning.probes} of {index.num_lists:,} lists, recall {reached:.3f}"
            for row in _timed(setting, (index, whole, peer), work.queries):
                bar = row.bar if work.judged else None
                row = replace(row, what=f"{row.what}, {work.name}", bar=bar)
                yield noted(row, note)


def _works(setting: Setting) -> Iterator[Work | Row]:
    try:
        images = million(setting, databases.QUERIES)
        quantizer = ProductQuantizer(DIM, 8, 256).fit(images.database[:30_000])
        yield Work("warped MNIST", *images, quantizer, judged=True)
    except MissingData as error:
        yield skipped("warped MNIST", error)
    for name, clusters in databases.CLUSTERS.items() if setting.full else ():
        x, queries = databases.database(setting, clusters), databases.queries(clusters)
        yield Work(name, x, queries, databases.fitted(8, 256), judged=False)


def _timed(
    setting: Setting, indexes: tuple[Any, Any, Any], queries: Tensor
) -> Iterator[Row]:
    for used in (1, 2):
        for batch in (1, len(queries)):
            what = f"{type(indexes[0]).__name__}, {batch} queries, {used} threads"
            with threads(used):
                yield from _rows(setting, what, indexes, queries[:batch])


def _indexes(setting: Setting, quantizer: ProductQuantizer) -> list[Any]:
    lists, words = (64, 8) if setting.quick else (8192, 128)
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

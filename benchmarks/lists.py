"""IVFADC and the multi-index at recall@10 .95 of the exhaustive scan, 1 M vectors."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

import faiss
import numpy as np
import torch
from torch import Tensor

from benchmarks import databases
from benchmarks.databases import threads
from benchmarks.digits_million import DIM, million, warps
from benchmarks.report import Bar, Row, noted, say, skipped
from benchmarks.timing import best_interleaved
from benchmarks.vectors import MissingData, Setting
from gradsnap.coders.packing import pack
from gradsnap.coders.quantizers import OptimizedProductQuantizer, ProductQuantizer
from gradsnap.index import ExhaustiveIndex, InvertedIndex, MultiIndex
from gradsnap.index.tuning import recall

K, TARGET = 10, 0.95
BARS = {"whole": Bar("≥", 10.0), "faiss": Bar("≥", 1.0, goal=1.5)}
TRAINING = 131_072
LISTS, WORDS, TURNED_WORDS = 512, 128, 64
"""Of 512 to 4,096 lists and 32 to 128 codewords, plain and rotated, those that we are
fastest with."""
TEN_LISTS, TEN_WORDS, TEN_WARPS = 4096, 128, 167
"""For ten million items: lists, codewords, and how often each image is warped."""
PEERS_LISTS = 4096
"""Of the same numbers of lists the one that FAISS is fastest with."""


class Work(NamedTuple):
    """Vectors, their quantizer, and whether the bar is judged on them."""

    name: str
    database: Tensor
    queries: Tensor
    quantizer: ProductQuantizer
    judged: bool


class Rivals(NamedTuple):
    """An index with lists and what it is compared with."""

    lists: Any
    whole: ExhaustiveIndex
    faiss: Any
    """IVFPQ with the same lists, codes and probes; None for a multi-index."""


def run(setting: Setting) -> Iterator[Row]:
    """Plain codes of 64 bits, so that all rank the same reconstructions.

    The bar is judged on images; clusters are made up, and only reported.
    """
    for work in _works(setting):
        if isinstance(work, Row):
            yield work
            continue
        codes = work.quantizer.encode(work.database)
        whole = ExhaustiveIndex(work.quantizer).add_codes(codes)
        truth = whole.search(work.queries, K).ids
        for name, index in _indexes(setting, work.quantizer).items():
            say(f"lists: {name}, {index.num_lists:,} lists, {work.name} …")
            index.fit(work.database[:TRAINING])
            lists = index.lists_of(work.database)
            index.add_codes(codes, lists=lists)
            tuning = index.tune(work.queries, truth, TARGET)
            reached = next(t.recall for t in tuning.curve if t.probes == tuning.probes)
            note = f"{tuning.probes} of {index.num_lists:,} lists, recall {reached:.3f}"
            rivals = Rivals(index, whole, _faiss_lists(index, codes, lists))
            for row in _timed(setting, name, rivals, work.queries):
                bar = row.bar if work.judged else None
                row = replace(row, what=f"{row.what}, {work.name}", bar=bar)
                yield noted(row, note)
        if work.judged:
            yield from _beside_its_best(setting, work, codes, truth)
            yield from _fast(setting, work)
            if setting.full:
                yield from _ten_million(setting, work)


def _ten_million(setting: Setting, work: Work) -> Iterator[Row]:
    """Ten times as many items, of which only codes and lists are kept."""
    say("lists: ten million …")
    lists, words = (64, 8) if setting.quick else (TEN_LISTS, TEN_WORDS)
    rotated = OptimizedProductQuantizer(work.quantizer.dim, 2, words)
    made: dict[str, Any] = {
        "InvertedIndex": InvertedIndex(work.quantizer, num_lists=lists),
        "MultiIndex, rotated": MultiIndex(work.quantizer, coarse=rotated),
    }
    for index in made.values():
        index.fit(work.database[: 2 * TRAINING])
    codes, chosen = [], {name: [] for name in made}  # type: ignore[var-annotated]
    for block in warps(setting, seed=1).blocks(1 if setting.quick else TEN_WARPS):
        codes.append(work.quantizer.encode(block).to(torch.uint8))
        for name, index in made.items():
            chosen[name].append(index.lists_of(block).to(torch.int32))
    joined = torch.cat(codes)
    whole = ExhaustiveIndex(work.quantizer).add_codes(joined)
    truth = whole.search(work.queries, K).ids
    for name, index in made.items():
        index.add_codes(joined, lists=torch.cat(chosen.pop(name)))
        index.tune(work.queries, truth, TARGET)
        rivals = Rivals(index, whole, None)
        for batch in (1, len(work.queries)):
            what = f"{name}, {len(joined):,} items, {batch} queries, 1 threads"
            for row in _rows(setting, what, rivals, work.queries[:batch]):
                yield noted(row, f"{index.probes} of {index.num_lists:,} lists")


def _beside_its_best(
    setting: Setting, work: Work, codes: Tensor, truth: Tensor
) -> Iterator[Row]:
    """Our lists beside as many lists as suit FAISS best, at the same recall."""
    made = {}
    for count in (LISTS, PEERS_LISTS):
        index = InvertedIndex(work.quantizer, num_lists=64 if setting.quick else count)
        lists = index.fit(work.database[:TRAINING]).lists_of(work.database)
        index.add_codes(codes, lists=lists).tune(work.queries, truth, TARGET)
        made[count] = index, _faiss_lists(index, codes, lists)
    ours, (other, peer) = made[LISTS][0], made[PEERS_LISTS]
    for batch in (1, len(work.queries)):
        asked = work.queries[:batch]
        calls: dict[str, Any] = {
            "ours": lambda asked=asked: ours.search(asked, K),
            "faiss": lambda asked=asked: peer.search(asked.numpy(), K),
        }
        best = best_interleaved(calls, setting.repeats(200 if batch == 1 else 10))
        row = Row(
            f"InvertedIndex, {batch} queries / FAISS IVFPQ at its best lists",
            batch / best["ours"],
            batch / best["faiss"],
            "queries/s",
            best["faiss"] / best["ours"],
            BARS["faiss"],
        )
        note = f"{ours.probes} of {ours.num_lists:,} lists"
        yield noted(row, f"{note}, FAISS {other.probes} of {other.num_lists:,}")


def _fast(setting: Setting, work: Work) -> Iterator[Row]:
    """64 bits as 16 x 16, beside FAISS's fast-scan as it is, and scored again.

    Its tables are of 8 bits, so that it finds less with the same probes; with
    ``IndexRefine`` it finds as much as we do.
    """
    quantizer = ProductQuantizer(DIM, 16, 16).fit(work.database[:30_000])
    codes = quantizer.encode(work.database)
    truth = ExhaustiveIndex(quantizer).add_codes(codes).search(work.queries, K).ids
    index = InvertedIndex(quantizer, num_lists=64 if setting.quick else 1024)
    lists = index.fit(work.database[:TRAINING]).lists_of(work.database)
    index.add_codes(codes, lists=lists).tune(work.queries, truth, TARGET)
    peers = _faiss_fast(index, codes, lists)
    found = {"ours": index.search(work.queries, K).ids} | {
        name: torch.from_numpy(peer.search(work.queries.numpy(), K)[1])
        for name, peer in peers.items()
    }
    recalls = {name: recall(ids, truth.tolist()) for name, ids in found.items()}
    for batch in (1, len(work.queries)):
        asked = work.queries[:batch]
        rows = asked.numpy()
        calls: dict[str, Any] = {"ours": lambda asked=asked: index.search(asked, K)}
        for name, peer in peers.items():
            calls[name] = lambda peer=peer, rows=rows: peer.search(rows, K)
        best = best_interleaved(calls, setting.repeats(200 if batch == 1 else 20))
        for name in peers:
            row = Row(
                f"InvertedIndex 16 x 16, {batch} queries / {name}",
                batch / best["ours"],
                batch / best[name],
                "queries/s",
                best[name] / best["ours"],
                BARS["faiss"],
            )
            note = f"{index.probes} of {index.num_lists:,} lists"
            pair = f"recall {recalls['ours']:.3f}, FAISS's {recalls[name]:.3f}"
            yield noted(row, f"{note}, {pair}")


def _faiss_fast(index: InvertedIndex, codes: Tensor, lists: Tensor) -> dict[str, Any]:
    """FAISS's IVFPQFastScan with the same lists and probes, alone and refined."""
    make: Any = faiss.IndexIVFPQFastScan
    fast = make(_faiss_lists(index, codes, lists))
    fast.nprobe = index.probes
    packed = pack(codes.numpy(), index.coder.codebook_size)
    whole: Any = faiss.IndexPQ(index.coder.dim, index.coder.num_codebooks, 4)
    whole.pq, whole.is_trained = fast.pq, True
    whole.add_sa_codes(packed)
    refined: Any = faiss.IndexRefine(fast, whole)
    refined.k_factor = 4
    return {"FAISS IVFPQFastScan": fast, "FAISS IVFPQFastScan, refined": refined}


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


def _indexes(setting: Setting, quantizer: ProductQuantizer) -> dict[str, Any]:
    lists, words = (64, 8) if setting.quick else (LISTS, WORDS)
    turned = 8 if setting.quick else TURNED_WORDS
    rotated = OptimizedProductQuantizer(quantizer.dim, 2, turned)
    return {
        "InvertedIndex": InvertedIndex(quantizer, num_lists=lists),
        "MultiIndex": MultiIndex(quantizer, codewords=words),
        "MultiIndex, rotated": MultiIndex(quantizer, coarse=rotated),
    }


def _faiss_lists(index: Any, codes: Tensor, lists: Tensor) -> Any:
    """FAISS's IVFPQ with the same centroids, codes, lists and probes."""
    if not isinstance(index, InvertedIndex):
        return None
    coder = index.coder
    coarse = faiss.IndexFlatL2(coder.dim)
    coarse.add(index.centroids.numpy())  # type: ignore[union-attr]
    bits = coder.codebook_size.bit_length() - 1
    sizes = (coder.dim, index.num_lists, coder.num_codebooks, bits)
    peer = faiss.IndexIVFPQ(coarse, *sizes)
    faiss.copy_array_to_vector(coder.codebooks.numpy().ravel(), peer.pq.centroids)
    peer.by_residual = False
    peer.is_trained = True
    rows, stored = pack(codes.numpy(), coder.codebook_size), cast(Any, peer.invlists)
    for number, own in enumerate(
        torch.argsort(lists, stable=True).split(
            torch.bincount(lists, minlength=index.num_lists).tolist()
        )
    ):
        if len(own):
            ids, part = own.numpy(), np.ascontiguousarray(rows[own.numpy()])
            pointers = faiss.swig_ptr(ids), faiss.swig_ptr(part)
            stored.add_entries(number, len(own), *pointers)
    peer.ntotal = len(rows)
    peer.nprobe = index.probes
    return peer


def _timed(
    setting: Setting, name: str, rivals: Rivals, queries: Tensor
) -> Iterator[Row]:
    for used in (1, 2):
        for batch in (1, len(queries)):
            what = f"{name}, {batch} queries, {used} threads"
            with threads(used):
                yield from _rows(setting, what, rivals, queries[:batch])


def _rows(
    setting: Setting, what: str, rivals: Rivals, queries: Tensor
) -> Iterator[Row]:
    asked = queries.numpy()
    calls: dict[str, Any] = {
        "lists": lambda: rivals.lists.search(queries, K),
        "whole": lambda: rivals.whole.search(queries, K),
    }
    if rivals.faiss is not None:
        calls["faiss"] = lambda: rivals.faiss.search(asked, K)
    best = best_interleaved(calls, setting.repeats(200 if len(queries) == 1 else 10))
    speeds = {name: len(queries) / best[name] for name in calls}
    against = {"whole": "our exhaustive scan", "faiss": "FAISS IVFPQ"}
    for name in (name for name in against if name in calls):
        ratio = speeds["lists"] / speeds[name]
        pair = speeds["lists"], speeds[name]
        bar = BARS[name] if "1 threads" in what else None
        yield Row(f"{what} / {against[name]}", *pair, "queries/s", ratio, bar)

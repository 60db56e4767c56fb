"""Lance's index with our codebooks beside our own indexes, and rates of searching."""

import shutil
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.report import Bar, Row, noted
from benchmarks.scale_parts import made_up
from benchmarks.vectors import Setting
from gradsnap.coders import Coder
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.index import ExhaustiveIndex, InvertedIndex
from gradsnap.scale.lance_index import index_table, stored_lists
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import search_by_index
from gradsnap.scale.workers import ThisProcess

QUERIES, K, LISTS = 100, 10, 256
PROBES = (1, 4, 16, 64, 256)


def lance_rows(
    table: CodeTable,
    coder: Coder,
    rows: Tensor,
    setting: Setting,
    what: str = "made-up vectors",
) -> Iterator[Row]:
    """Building, overlap with our codebook at full probe, recall against probes."""
    copy = f"{table.address}.lists.lance"
    shutil.copytree(table.address, copy)
    queries = rows[:: max(1, len(rows) // QUERIES)][:QUERIES]
    queries = queries + 0.01 * torch.randn(
        queries.shape, generator=torch.Generator().manual_seed(5)
    )
    started = time.process_time()
    index_table(table, ThisProcess())
    took = time.process_time() - started
    title = f"{what}, {len(rows):,} of {rows.shape[1]}-d"
    yield noted(
        Row(f"{title}: rows into Lance's index", len(rows) / took, unit="rows/s"),
        "a core, our codebooks, one list",
    )
    theirs = _ids(search_by_index(CodeTable(table.address), queries, K))
    ours = ExhaustiveIndex(coder).add(rows)
    best = ours.search(queries, K)
    codes = coder.encode(rows)
    shared = 1 - len(torch.unique(codes, dim=0)) / len(codes)
    overlap = Row(
        f"{title}: overlap@10 of Lance and our ADC, full probe",
        _overlap(theirs, best.ids),
        bar=Bar("≥", 0.99),
    )
    tied = _overlap_with_ties(ours, queries, theirs, best.distances[:, -1])
    told = (
        f"{tied:.4f} where equal distances count as equal; {shared:.0%} of codes twice"
    )
    yield noted(overlap, told)
    lists = 16 if setting.quick else LISTS
    for row in _curve(CodeTable(copy), rows, queries, lists):
        yield noted(row, what)


def _overlap_with_ties(
    index: ExhaustiveIndex, queries: Tensor, found: Tensor, last: Tensor
) -> float:
    """Share of found items that are no farther, by us, than our own last result."""
    fine = 0
    for query, ids, most in zip(queries, found, last, strict=True):
        own = index.search(query[None], len(ids), within=ids)
        fine += int((own.distances[0] <= most * (1 + 1e-5)).sum())
    return fine / found.numel()


def _curve(
    table: CodeTable, rows: Tensor, queries: Tensor, lists: int
) -> Iterator[Row]:
    """Recall@10 of the nearest by floats, for Lance and for our InvertedIndex."""
    index_table(table, ThisProcess(), lists)
    table = CodeTable(table.address)
    known = stored_lists(table)
    if known is None or not isinstance(known.coder, ProductQuantizer):
        raise RuntimeError("the index has no lists")
    centroids = torch.from_numpy(known.centroids.copy())
    ours = InvertedIndex(known.coder, centroids=centroids, residual=True).add(rows)
    truth = torch.cdist(queries, rows).topk(K, largest=False).indices
    for probes in (one for one in PROBES if one <= lists):
        ours.probes = probes
        mine = _overlap(ours.search(queries, K).ids, truth)
        found = _ids(search_by_index(table, queries, K, probes))
        lance = _overlap(found, truth)
        what = f"recall@10, {probes} of {lists} lists: Lance / our InvertedIndex"
        yield Row(what, lance, mine, "", lance / mine)


def scan_row(coder: Coder, rows: Tensor) -> Row:
    """Codes a second that our exhaustive index compares with one query."""
    index = ExhaustiveIndex(coder).add(rows)
    queries = made_up(50, rows.shape[1], 4)
    index.search(queries, K)
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for query in queries:
            index.search(query[None], K)
        best = min(best, (time.process_time() - started) / len(queries))
    row = Row("codes of 64 bits a core compares", len(rows) / best, unit="codes/s")
    return noted(row, f"{len(rows):,} codes, one query at a time")


def _ids(found: list[list[tuple[int, float]]]) -> Tensor:
    """Ids (q, K), -1 where the lists that were looked into hold fewer."""
    rows = [[one for one, _ in row] for row in found]
    return torch.tensor([row + [-1] * (K - len(row)) for row in rows])


def _overlap(found: Tensor, expected: Tensor) -> float:
    """Share of the expected ids (q, k) that were found, in any order."""
    same = found[:, :, None] == expected[:, None, :]
    return float(same.any(dim=1).float().mean())

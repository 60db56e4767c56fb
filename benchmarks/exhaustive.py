"""Exhaustive search of 1 M and 10 M codes beside FAISS and the memory's bandwidth."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import databases
from benchmarks.databases import MILLION, rows_of, threads
from benchmarks.report import Bar, Row, noted, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from gradsnap.index import ExhaustiveIndex

K = 100
BAR = Bar("≥", 1.0)
BATCH = 64


def run(setting: Setting) -> Iterator[Row]:
    """Same codebooks, same codes, k = 100; batches of 64 queries, and one alone."""
    for count in (MILLION, 10 * MILLION):
        rows = rows_of(setting, count)
        for num_codebooks in (4, 8):
            yield from _searches(setting, rows, num_codebooks)


def _searches(setting: Setting, rows: int, num_codebooks: int) -> Iterator[Row]:
    say(f"exhaustive: {rows:,} codes of {8 * num_codebooks} bits …")
    quantizer = databases.fitted(num_codebooks, 256)
    codes = databases.many_codes(quantizer, rows)
    ours = ExhaustiveIndex(quantizer).add_codes(codes)
    theirs = databases.faiss_pq(quantizer, codes)
    for used in (1, 2):
        for batch in (BATCH, 1):
            queries = databases.queries()[:batch]
            what = (
                f"{rows:,} x {8 * num_codebooks} bits, {batch} queries, {used} threads"
            )
            with threads(used):
                yield _row(setting, what, (ours, theirs), queries, codes)


def _row(
    setting: Setting, what: str, pair: tuple[Any, Any], queries: Tensor, codes: Tensor
) -> Row:
    ours, theirs = pair
    calls = {
        "ours": lambda: ours.search(queries, K),
        "theirs": lambda: theirs.search(queries.numpy(), K),
        "memory": lambda: _read(codes),
    }
    best = best_interleaved(calls, setting.repeats(3))
    distances, _ = theirs.search(queries.numpy(), K)
    found = ours.search(queries, K).distances.numpy()
    equal = np.allclose(found, distances, rtol=1e-4, atol=1e-4)
    rate = len(codes) / 1e6
    per_query = best["ours"] / len(queries)
    row = Row(
        what,
        len(queries) / best["ours"],
        len(queries) / best["theirs"],
        "queries/s",
        best["theirs"] / best["ours"],
        BAR,
        fair=equal,
    )
    gigabytes = codes.numel() / best["memory"] / 1e9
    return noted(
        row,
        f"{1e3 * per_query / rate:.3f} ns a code and query; distances "
        f"{'equal' if equal else 'DIFFER'}; reading all codes once "
        f"({gigabytes:.1f} GB/s) takes {best['memory'] / best['ours']:.1%} of the time",
    )


def _read(codes: Tensor) -> int:
    """A plain scan of the codes: every byte is read once."""
    words = codes.flatten()[: codes.numel() // 8 * 8].view(torch.int64).numpy()
    parts = np.array_split(words, torch.get_num_threads())
    if len(parts) == 1:
        return int(np.bitwise_xor.reduce(parts[0]))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(parts)) as pool:
        return sum(map(int, pool.map(np.bitwise_xor.reduce, parts)))

"""MAP@1500 of 50,000 queries in 1.28 million 48-bit codes, in bounded memory."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import torch

from benchmarks.memory import forget_the_peak, resident
from benchmarks.report import Bar, Row, say
from benchmarks.timing import use_one_thread
from benchmarks.vectors import Setting
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.evaluation import (
    CodeDistances,
    Distances,
    HashDistances,
    RankingRules,
    evaluate,
)

QUERIES, ITEMS, CLASSES, BYTES, LENGTH, DIM = 50_000, 1_280_000, 1000, 6, 1500, 48
CODE_QUERIES = 2_000
"""Queries ranked by ADC, unless in full: each costs three times a hash's."""
BAR = Bar("<", 2048)


def run(setting: Setting) -> Iterator[Row]:
    """Growth of the resident set beyond the codes, in a process of its own."""
    items = setting.rows(ITEMS)
    counts = {"hashes": QUERIES, "codes": QUERIES if setting.full else CODE_QUERIES}
    for kind, queries in counts.items():
        asked = setting.rows(queries)
        say(f"big_map: {asked:,} x {items:,} {kind} …")
        command = [sys.executable, "-m", "benchmarks.big_map", kind, str(asked)]
        done = subprocess.run(
            [*command, str(items)], check=True, stdout=subprocess.PIPE, text=True
        )
        found = json.loads(done.stdout)
        pairs = asked * items / found["seconds"] / 1e6
        note = (
            f"{found['seconds']:.0f} s, {pairs:,.0f} M pairs/s, MAP {found['map']:.5f}"
        )
        what = f"{kind}, {8 * BYTES} bits: {asked:,} x {items:,}, top {LENGTH}"
        yield Row(what, found["grown"], unit="MiB", bar=BAR, note=note)


def measured(kind: str, queries: int, items: int) -> dict[str, float]:
    """Seconds, MAP, and MiB by which the resident set grows at most."""
    generator = torch.Generator().manual_seed(0)
    size = (items + queries, BYTES)
    codes = torch.randint(256, size, dtype=torch.uint8, generator=generator)
    labels = torch.randint(CLASSES, (items + queries,), generator=generator)
    rules = RankingRules(LENGTH, "relevant", "zero")
    _once(kind, codes[:100], labels[:100], rules)  # compiles and loads what is needed
    forget_the_peak()
    before, started = resident("VmRSS"), time.perf_counter()
    table = _table(kind, codes, queries)
    found = evaluate(table, labels[:queries], labels[queries:], rules)
    took = time.perf_counter() - started
    grown = resident("VmHWM") - before
    return {"seconds": took, "map": found.map, "grown": grown}


def _once(
    kind: str, codes: torch.Tensor, labels: torch.Tensor, rules: RankingRules
) -> None:
    evaluate(_table(kind, codes, 10), labels[:10], labels[10:], rules)


def _table(kind: str, codes: torch.Tensor, queries: int) -> Distances:
    if kind == "hashes":
        return HashDistances(codes[:queries], codes[queries:])
    generator = torch.Generator().manual_seed(1)
    quantizer = ProductQuantizer(DIM, BYTES, 256)
    drawn = torch.randn(quantizer.codebooks.shape, generator=generator)
    quantizer.codebooks.copy_(drawn)
    quantizer.fitted.fill_(True)
    asked = torch.randn(queries, DIM, generator=generator)
    return CodeDistances(quantizer, asked, codes[queries:])


if __name__ == "__main__":
    use_one_thread()
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))

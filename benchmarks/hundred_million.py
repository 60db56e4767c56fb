"""A hundred million codes of 64 bits on disk: built in parts, saved, opened, searched.

What the curves of ``growth`` foretell for 10⁸ items stands beside what was measured.
Codes are drawn, not encoded: each integer as frequent as in codes of real vectors.
"""

import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import gradsnap as gs
from benchmarks import databases
from benchmarks.databases import MILLION, rows_of
from benchmarks.report import Row, noted, say
from benchmarks.timing import seconds
from benchmarks.vectors import Setting
from gradsnap.index import ExhaustiveIndex, Index, InvertedIndex

ITEMS, PART = 100 * MILLION, 10 * MILLION
LISTS, PROBES = 16_384, 32
K = 10


def run(setting: Setting) -> Iterator[Row]:
    """An exhaustive index and one of 16,384 lists, each beside a hundredth of it.

    Lists are drawn too, so a probe finds as many items as in lists of equal size.
    """
    quantizer = databases.fitted(8, 256)
    queries = databases.queries()[:32]
    kinds: dict[str, Any] = {
        "exhaustive": lambda: ExhaustiveIndex(quantizer),
        "lists": lambda: _lists(quantizer, setting),
    }
    for name, make in kinds.items():
        _measured(setting, name, make(), 20_000, queries)  # kernels are compiled once
        small = _measured(setting, name, make(), MILLION, queries)
        large = _measured(setting, name, make(), ITEMS, queries)
        for what, taken in large.items():
            unit = "MB" if "MB" in what else "s"
            row = Row(f"{name}, 10⁸ items: {what}", taken, 100 * small[what], unit)
            yield noted(row, "beside 100 times that of a million")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    yield Row("memory of the process, at most", most, unit="MB")


def _lists(quantizer: gs.ProductQuantizer, setting: Setting) -> InvertedIndex:
    count = 64 if setting.quick else LISTS
    centroids = databases.realistic(count, seed=6)
    return InvertedIndex(quantizer, centroids=centroids, probes=PROBES)


def _measured(
    setting: Setting, name: str, index: Any, items: int, queries: torch.Tensor
) -> dict[str, float]:
    """Seconds and bytes of an index of so many items."""
    folder = Path(tempfile.mkdtemp(prefix="gradsnap-"))
    try:
        say(f"{name}: {items:,} items …")
        building = seconds(lambda: _fill(setting, index, rows_of(setting, items)))
        saving = seconds(lambda: index.save(folder / "index"))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        index.items.segments.clear()
        opened: list[Index] = []
        opening = seconds(lambda: opened.append(gs.load_index(folder / "index")))
        first = seconds(lambda: opened[0].search(queries[:1], K))
        one = min(seconds(lambda: opened[0].search(queries[:1], K)) for _ in range(5))
        many = min(seconds(lambda: opened[0].search(queries, K)) for _ in range(2))
    finally:
        shutil.rmtree(folder)
    return {
        "adding codes": building,
        "saving": saving,
        "MB on disk": size / 1e6,
        "opening": opening,
        "first query": first,
        "one query": one,
        "32 queries": many,
    }


def _fill(setting: Setting, index: Any, items: int) -> None:
    """Adds drawn codes, a part at a time; numbers of ten million codes repeat."""
    generator = torch.Generator().manual_seed(7)
    size = min(rows_of(setting, PART), items)
    codes = databases.many_codes(index.coder, size)
    for start in range(0, items, size):
        part = codes[: min(size, items - start)]
        if index.num_lists is None:
            index.add_codes(part)
        else:
            drawn = torch.randint(index.num_lists, (len(part),), generator=generator)
            index.add_codes(part, lists=drawn)

"""How time and memory grow with items, bits, dimensions and threads, beside FAISS."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import databases
from benchmarks.databases import threads
from benchmarks.report import Row, say
from benchmarks.timing import best_interleaved, seconds
from benchmarks.vectors import Setting
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.files import replacing
from gradsnap.index import ExhaustiveIndex

K, BATCH = 10, 32
ITEMS = (10_000, 100_000, 1_000_000, 10_000_000)
BITS = (16, 32, 64, 128)
DIMENSIONS = (32, 64, 192, 768)
PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "growth.svg"
PANELS = {
    "items": "items, searching (ms a query)",
    "bits": "bits, searching (ms a query)",
    "threads": "threads, searching (ms a query)",
    "building items": "items, building (s)",
    "building dimensions": "dimensions, building 100,000 (s)",
    "memory": "items, memory (MB)",
}


def run(setting: Setting) -> Iterator[Row]:
    """Exhaustive search by product codes, 64 bits unless said; the same codes in both.

    Searching is for 32 queries at once, building is encoding and adding, one thread
    unless said.
    """
    rows = [
        *_searching(setting),
        *_threads(setting),
        *_building(setting),
        *_dimensions(setting),
    ]
    yield from rows
    if not setting.quick:
        _draw(rows)


def _pair(bits: int, count: int) -> tuple[Any, Any]:
    """Ours and FAISS's index of so many codes."""
    say(f"growth: {count:,} codes of {bits} bits …")
    quantizer = databases.fitted(bits // 8, 256)
    codes = databases.many_codes(quantizer, count)
    ours = ExhaustiveIndex(quantizer).add_codes(codes)
    return ours, databases.faiss_pq(quantizer, codes)


def _row(what: str, x: int, best: dict[str, float], unit: str) -> Row:
    """One point of both curves."""
    pair = best["ours"], best["faiss"]
    return Row(f"{what}: {x:,}", *pair, unit, pair[1] / pair[0])


def _search(setting: Setting, what: str, x: int, pair: tuple[Any, Any]) -> Row:
    queries = databases.queries()[:BATCH]
    calls = {
        "ours": lambda: pair[0].search(queries, K),
        "faiss": lambda: pair[1].search(queries.numpy(), K),
    }
    best = best_interleaved(calls, setting.repeats(3))
    each = {name: 1e3 * taken / BATCH for name, taken in best.items()}
    return _row(what, x, each, "ms")


def _searching(setting: Setting) -> Iterator[Row]:
    for count in (databases.rows_of(setting, one) for one in ITEMS):
        pair = _pair(64, count)
        yield _search(setting, "items", count, pair)
        yield _memory(count, *pair)
    for bits in BITS:
        pair = _pair(bits, databases.rows_of(setting, databases.MILLION))
        yield _search(setting, "bits", bits, pair)


def _memory(count: int, ours: Any, theirs: Any) -> Row:
    """Codes as they are kept, and those a scan reads where they differ, in MB."""
    kept = [segment.codes for segment in ours.items.segments]
    read = [columns.codes for columns in ours.items.columns()]
    different = [a for a, b in zip(read, kept, strict=True) if not _shares(a, b)]
    own = sum(array.nbytes for array in (*kept, *different)) / 1e6
    sizes = {"ours": own, "faiss": theirs.codes.size() / 1e6}
    return _row("memory", count, sizes, "MB")


def _shares(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.shares_memory(one, other))


def _threads(setting: Setting) -> Iterator[Row]:
    pair = _pair(64, databases.rows_of(setting, databases.MILLION))
    for used in (1, 2):
        with threads(used):
            yield _search(setting, "threads", used, pair)


def _build(quantizer: ProductQuantizer, x: torch.Tensor) -> dict[str, Any]:
    def theirs() -> None:
        index = databases.faiss_pq(quantizer, quantizer.encode(x[:1]))
        index.reset()
        index.add(x.numpy())

    return {"ours": lambda: ExhaustiveIndex(quantizer).add(x), "faiss": theirs}


def _building(setting: Setting) -> Iterator[Row]:
    quantizer = databases.fitted(8, 256)
    for count in (databases.rows_of(setting, one) for one in ITEMS[:3]):
        calls = _build(quantizer, databases.realistic(count, seed=9))
        best = {name: seconds(call) for name, call in calls.items()}
        yield _row("building items", count, best, "s")


def _dimensions(setting: Setting) -> Iterator[Row]:
    count = databases.rows_of(setting, 100_000)
    for dim in DIMENSIONS:
        x = torch.randn(count, dim, generator=torch.Generator().manual_seed(0))
        quantizer = ProductQuantizer(dim, 8, 256).fit(x[:5_000])
        best = best_interleaved(_build(quantizer, x), setting.repeats(2))
        yield _row("building dimensions", dim, best, "s")


def _draw(rows: Sequence[Row]) -> None:
    """The curves, ours and FAISS's, one panel for each thing that grows."""
    from matplotlib import pyplot

    pyplot.rcParams["svg.fonttype"] = "none"  # letters as text: a tenth of the bytes
    figure, panels = pyplot.subplots(2, 3, figsize=(10, 6), layout="constrained")
    for panel, (name, title) in zip(panels.flat, PANELS.items(), strict=True):
        own = [row for row in rows if row.what.startswith(f"{name}: ")]
        x = [int(row.what.split(": ")[1].replace(",", "")) for row in own]
        panel.plot(x, [row.ours for row in own], "o-", label="gradsnap")
        panel.plot(x, [row.theirs for row in own], "s--", label="FAISS")
        scale = "linear" if name == "threads" else "log"
        panel.set(title=title, xscale=scale, yscale=scale)
        panel.set_ylim(bottom=0 if name == "threads" else None)
        panel.minorticks_off()
        panel.set_xticks(x, [_short(one) for one in x])
        panel.grid(alpha=0.3)
    panels.flat[0].legend()
    with replacing(PICTURE) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def _short(count: int) -> str:
    """A count in few letters, so that marks do not run into each other: 10 k, 1 M."""
    for size, letter in ((1_000_000, " M"), (1_000, " k")):
        if count >= size:
            return f"{count // size}{letter}"
    return str(count)

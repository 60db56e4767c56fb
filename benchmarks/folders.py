"""Index folders: opening 10 M codes, memory before and after, bytes a vector."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import databases
from benchmarks.databases import MILLION, rows_of
from benchmarks.report import Bar, Row, noted, say
from benchmarks.vectors import Setting
from gradsnap.index import ExhaustiveIndex, Index, InvertedIndex

OPEN_BAR, DISK_BAR = Bar("<", 1.0), Bar("≤", 1.05)


def run(setting: Setting) -> Iterator[Row]:
    """10 M codes of 32 and 64 bits; opened in a fresh process."""
    rows = rows_of(setting, 10 * MILLION)
    for num_codebooks in (4, 8):
        quantizer = databases.fitted(num_codebooks, 256)
        codes = databases.many_codes(quantizer, rows)
        plain = ExhaustiveIndex(quantizer).add_codes(codes)
        yield from _measured(
            plain, f"{rows:,} x {8 * num_codebooks} bits", num_codebooks
        )
        listed = InvertedIndex(quantizer, centroids=databases.realistic(1024, seed=6))
        generator = torch.Generator().manual_seed(0)
        lists = torch.randint(1024, (rows,), generator=generator)
        listed.add_codes(codes, lists=lists)
        what = f"{rows:,} x {8 * num_codebooks} bits in lists, ids of 4 bytes"
        yield from _measured(listed, what, num_codebooks + 4)


def _measured(index: Index, what: str, each: int) -> Iterator[Row]:
    say(f"folders: {what} …")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index.save(path)
        size = sum(file.stat().st_size for file in path.iterdir())
        command = [sys.executable, "-m", "benchmarks.folders", str(path)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds, opened, searched = json.loads(done.stdout)
    row = Row(f"opening {what}", seconds, unit="s", bar=OPEN_BAR)
    yield noted(
        row,
        f"memory grows by {opened:.1f} MiB, by {searched:.1f} MiB after one search; "
        f"the codes are {size / 2**20:.0f} MiB",
    )
    ratio = size / len(index) / each
    yield Row(f"disk, {what}", size / len(index), each, "bytes", ratio, DISK_BAR)


def opening(path: str) -> tuple[float, float, float]:
    """Seconds to open, MiB of memory it took, and MiB after one search."""
    import time

    from benchmarks.memory import resident
    from gradsnap.index import load_index

    queries = databases.queries()[:1]
    before = resident("VmRSS")
    started = time.perf_counter()
    index = load_index(path)
    seconds = time.perf_counter() - started
    opened = resident("VmRSS") - before
    index.search(queries, 100)
    return seconds, opened, resident("VmRSS") - before


if __name__ == "__main__":
    print(json.dumps(opening(sys.argv[1])))

"""``gradsnap encode`` into a table: memory that does not grow, seconds foretold.

Measured is the most anonymous memory of the process, as in ``streaming``.
"""

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Bar, Row, noted
from benchmarks.scale_parts import vector_coder
from benchmarks.streaming import peak, write_vectors
from benchmarks.vectors import Setting

DIM, BITS = 16, 4
SIZES = (1_000_000, 3_000_000, 10_000_000)
SHARDS = 16
"""Of the smallest run: a single one would show less than a whole job holds."""

BAR = Bar("≤", 1.25)


class Taken(NamedTuple):
    """What a command took."""

    memory: float
    """Most anonymous memory, MiB."""
    cpu: float
    """Seconds of the processor."""


def run(setting: Setting) -> Iterator[Row]:
    """Ten times the rows: the same memory, and seconds that smaller runs foretell."""
    sizes = tuple(size // 100 for size in SIZES) if setting.quick else SIZES
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        coder = vector_coder(place, DIM, BITS)
        rows = str(sizes[0] // SHARDS)
        first, middle, last = (_encoded(place, coder, size, rows) for size in sizes)
    what = f"encode, {sizes[2]:,} against {sizes[0]:,} rows of {DIM}-d vectors: memory"
    ratio = last.memory / first.memory
    row = Row(what, last.memory, first.memory, "MiB", ratio, BAR)
    yield noted(row, f"most anonymous; {middle.memory:.0f} MiB at {sizes[1]:,}")
    slope = (middle.cpu - first.cpu) / (sizes[1] - sizes[0])
    told = first.cpu + slope * (sizes[2] - sizes[0])
    what = f"seconds of {sizes[2]:,} vectors predicted from the two smaller runs"
    row = Row(f"{what} / measured", told, last.cpu, "s", told / last.cpu)
    yield noted(row, f"of the processor, a start and {1 / slope:,.0f} rows a second")


def _encoded(folder: Path, coder: Path, rows: int, shard: str) -> Taken:
    """What encoding so many vectors takes."""
    source, out = folder / f"{rows}.npy", folder / f"{rows}.lance"
    write_vectors(source, rows)
    options = ("--out", str(out), "--shard-rows", shard)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    most, _ = peak("encode", str(coder), str(source), *options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    source.unlink()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(most, cpu)

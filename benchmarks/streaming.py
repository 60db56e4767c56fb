"""Building an index of a stream from the command line: memory that does not grow.

``gradsnap index vectors.npy`` runs in a process of its own; measured is the most
anonymous memory it ever held. Mapped files are not counted: the system takes those
pages back whenever it wants them.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.report import Bar, Row, noted
from benchmarks.vectors import Setting

DIM = 16
SIZES = (1_000_000, 10_000_000)
CHUNK = 500_000


def run(setting: Setting) -> Iterator[Row]:
    """Ten times the items, the same memory."""
    sizes = tuple(size // 100 for size in SIZES) if setting.quick else SIZES
    with tempfile.TemporaryDirectory() as folder:
        first, second = (measured(Path(folder), size) for size in sizes)
    row = Row(
        f"{sizes[1]:,} against {sizes[0]:,} items, {DIM}-d, 32-bit codes",
        second[0],
        first[0],
        "MiB",
        second[0] / first[0],
        Bar("≤", 1.25),
    )
    yield noted(row, f"{second[1]:.0f} s and {first[1]:.0f} s")


def measured(folder: Path, rows: int) -> tuple[float, float]:
    """Most anonymous memory in MiB, and seconds, of indexing so many vectors."""
    source, out = folder / f"{rows}.npy", folder / f"{rows}.index"
    write_vectors(source, rows)
    taken = peak("index", str(source), "--bits", "32", "--out", str(out))
    source.unlink()
    return taken


def peak(*arguments: str) -> tuple[float, float]:
    """Most anonymous memory in MiB, and wall seconds, of a command of ours."""
    command = [sys.executable, "-m", "gradsnap", *arguments, "--quiet"]
    started = time.perf_counter()
    process = subprocess.Popen(command)
    most = 0.0
    while process.poll() is None:
        most = max(most, _anonymous(process.pid))
        time.sleep(0.02)
    if process.returncode != 0:
        raise RuntimeError(f"gradsnap {arguments[0]} ended with {process.returncode}")
    return most, time.perf_counter() - started


def _anonymous(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in lines if line.startswith("RssAnon")]
    return int(found[0]) / 1024 if found else 0.0


def write_vectors(path: Path, rows: int) -> None:
    """So many made-up vectors of 16 dimensions, written part by part."""
    generator = np.random.default_rng(0)
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (rows, DIM))
    for start in range(0, rows, CHUNK):
        part = mapped[start : start + CHUNK]
        part[:] = generator.standard_normal(part.shape, dtype=np.float32)
    mapped.flush()

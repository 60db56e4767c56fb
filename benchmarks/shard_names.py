"""Memory of names in a process that trains on tar shards, by how many processes share.

Each process is fresh, lists its shards, divides the names and draws a batch.
"""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from PIL import Image

from benchmarks.memory import forget_the_peak, resident
from benchmarks.report import Row, say
from benchmarks.timing import use_one_thread
from benchmarks.vectors import Setting

SHARDS, ITEMS, CLASSES = 100, 10_000, 1000
QUICK_ITEMS = 200
WORLDS = (1, 4, 16)


def run(setting: Setting) -> Iterator[Row]:
    """Growth of the resident set against rows of the process."""
    items = QUICK_ITEMS if setting.quick else ITEMS
    with tempfile.TemporaryDirectory() as folder:
        say(f"shard_names: writing {SHARDS} tar files of {items:,} images …")
        write_shards(Path(folder), items)
        for world in WORLDS:
            say(f"shard_names: the first of {world} processes …")
            command = [sys.executable, "-m", "benchmarks.shard_names", folder]
            done = subprocess.run(
                [*command, str(world)], check=True, stdout=subprocess.PIPE, text=True
            )
            yield _row(json.loads(done.stdout), world, SHARDS * items)


def _row(found: dict[str, float], world: int, total: int) -> Row:
    rows = int(found["rows"])
    each = found["kept"] * 2**20 / rows
    note = (
        f"{rows:,} rows, {each:.0f} bytes each; at most {found['peak']:.0f} MiB while "
        f"listing, {rows / found['seconds']:,.0f} rows a second of the processor"
    )
    return Row(
        f"{total:,} names, {world} processes", found["kept"], unit="MiB", note=note
    )


def write_shards(folder: Path, items: int) -> None:
    """Tar files of one tiny image, many times, with labels beside."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    for shard in range(SHARDS):
        with tarfile.open(folder / f"shard-{shard:05d}.tar", "w") as archive:
            for number in range(shard * items, (shard + 1) * items):
                label = f"class {number % CLASSES}".encode()
                for ending, data in (("png", file.getvalue()), ("cls", label)):
                    member = tarfile.TarInfo(f"photos/{number:012d}.{ending}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))


def held(folder: str, world: int) -> dict[str, float]:
    """Rows of the first of several processes, and MiB by which it grew."""
    from gradsnap.data import ImageOptions, NameProtocol
    from gradsnap.data.shards import list_part, reader_of

    reader = reader_of(folder)
    small = list_part(reader, ImageOptions(), 0, SHARDS, SHARDS)
    small.dataset([small.summary()]).batch(torch.arange(32))  # imports what comes late
    forget_the_peak()
    before, started = resident("VmRSS"), time.process_time()
    part = list_part(reader, ImageOptions(), 0, world)
    dataset = part.dataset([part.summary()])
    seconds = time.process_time() - started
    parts = NameProtocol().parts(dataset.names, 0)
    train = torch.from_numpy(parts.train.nonzero()[0])
    dataset.batch(train[:32])
    return {
        "rows": len(dataset),
        "kept": resident("VmRSS") - before,
        "peak": resident("VmHWM") - before,
        "seconds": seconds,
    }


if __name__ == "__main__":
    use_one_thread()
    print(json.dumps(held(sys.argv[1], int(sys.argv[2]))))

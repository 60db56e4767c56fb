"""Small sources in shards, and several processes played by threads."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet
from torch import Tensor

from gradsnap.data import ImageOptions, ShardedDataset
from gradsnap.data.shards import list_part, reader_of
from gradsnap.training.processes import Processes
from tests.data_files import png_bytes, random_vectors, write_image, write_shards

Value = TypeVar("Value")
Result = TypeVar("Result")

CLASSES = ("cat", "dog", "eel")
SHARDS = 6
ITEMS = 20
"""In each shard."""


def write_tars(root: Path) -> Path:
    return write_shards(root / "tars", SHARDS, ITEMS)


def write_parquet(root: Path) -> Path:
    """Two files of three row groups."""
    (root / "parquet").mkdir()
    for file in range(2):
        rows = range(file * 3 * ITEMS, (file + 1) * 3 * ITEMS)
        columns = {
            "image": [{"bytes": png_bytes(row), "path": str(row)} for row in rows],
            "label": [row % 3 for row in rows],
        }
        path = root / "parquet" / f"{file}.parquet"
        parquet.write_table(arrow.table(columns), path, row_group_size=ITEMS)
    return root / "parquet"


def write_lance(root: Path) -> Path:
    lance = pytest.importorskip("lance", reason="the extra lance is not installed")
    rows = range(SHARDS * ITEMS)
    columns = {
        "key": [f"photo {row}" for row in rows],
        "image": [png_bytes(row) for row in rows],
        "label": [CLASSES[row % 3] for row in rows],
    }
    table = arrow.table(columns)
    lance.write_dataset(table, str(root / "photos.lance"), max_rows_per_file=ITEMS)
    return root / "photos.lance"


def write_folders(root: Path) -> Path:
    """A folder a class, some images deeper."""
    for number in range(SHARDS):
        for row in range(ITEMS):
            below = "deep" if row % 2 else ""
            path = root / "folders" / f"class {number}" / below / f"{row}.png"
            write_image(path, seed=100 * number + row)
    return root / "folders"


def write_vector_shards(root: Path, items: int = ITEMS, classes: int = 4) -> Path:
    """Vectors around a place for each class, in Parquet."""
    (root / "vectors").mkdir()
    places = 2 * random_vectors(classes, 6, seed=99)
    for shard in range(SHARDS):
        labels = np.arange(items) % classes
        noise = random_vectors(items, 6, seed=shard)
        columns = {"vector": list(places[labels] + noise), "label": labels}
        path = root / "vectors" / f"{shard}.parquet"
        parquet.write_table(arrow.table(columns), path)
    return root / "vectors"


KINDS: dict[str, Callable[[Path], Path]] = {
    "tar": write_tars,
    "parquet": write_parquet,
    "lance": write_lance,
    "folders": write_folders,
    "vectors": write_vector_shards,
}


@dataclass
class Table:
    """Where threads that play processes lay what they exchange."""

    world: int
    values: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = [None] * self.world
        self.barrier = threading.Barrier(self.world, timeout=60)


@dataclass(frozen=True)
class Threaded(Processes):
    """One of several processes that is a thread."""

    table: Table = field(default_factory=lambda: Table(1))

    def exchanged(self, value: Value) -> list[Value]:
        self.table.values[self.rank] = value
        self.table.barrier.wait()
        found = list(self.table.values)
        self.table.barrier.wait()
        return found

    def filled(self, rows: Tensor, total: int, mine: slice | Tensor) -> Tensor:
        every = rows.new_zeros(total, *rows.shape[1:])
        every[mine] = rows
        return sum(self.exchanged(every), start=every.new_zeros(1))


def on_processes(world: int, work: Callable[[Processes], Result]) -> list[Result]:
    """What each of several processes gives, in their order."""
    table = Table(world)
    with ThreadPoolExecutor(world) as pool:
        return list(
            pool.map(lambda rank: work(Threaded(rank, world, table)), range(world))
        )


def opened(source: Path | str, processes: Processes, **more: Any) -> ShardedDataset:
    """What one of the processes has of a source."""
    options = ImageOptions(more.pop("side", None), skip_bad=more.pop("skip_bad", False))
    rank, world = processes.rank, processes.world
    part = list_part(reader_of(str(source)), options, rank, world, **more)
    return part.dataset(processes.exchanged(part.summary()), rank)

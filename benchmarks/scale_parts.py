"""What the benchmark of scale encodes, and workers that note their time."""

import itertools
import math
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.vectors import Setting
from gradsnap.coders import Coder
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.data import open_dataset
from gradsnap.inference.model import Model, NetworkSpec, load
from gradsnap.networks import build_network
from gradsnap.scale.encoder import EncodingJob, ShardEncoder, Written, _Noted
from gradsnap.scale.encoding import encode_source, open_for
from gradsnap.scale.packed_model import PackedModel
from gradsnap.scale.ray_cluster import RayWorkers
from gradsnap.scale.shard import Shard
from gradsnap.scale.sources import open_source
from gradsnap.scale.table import CodeTable
from gradsnap.scale.workers import ThisProcess, Workers


class Encoded(NamedTuple):
    """What encoding took."""

    rows: int
    cpu: float
    """Seconds of the processor, of all workers, without their start."""
    wall: float
    """With the start of the workers."""
    working: float
    """From when the first worker was ready until the last was done."""


class Timed(NamedTuple):
    """A shard that a worker encoded."""

    written: Written
    cpu: float
    """Seconds of the processor."""
    began: float
    ended: float
    """Moments of the machine's clock."""


class TimedEncoder:
    """Encodes shards, and says how long each took."""

    def __init__(self, job: EncodingJob) -> None:
        self.encoder = ShardEncoder(job)
        self.warm = False

    def __call__(self, shard: Shard) -> Timed:
        if not self.warm:  # compiles the network
            for batch in itertools.islice(self.encoder._rows(shard, _Noted([])), 1):
                del batch
            self.warm = True
        started, began = time.process_time(), time.time()
        written = self.encoder(shard)
        return Timed(written, time.process_time() - started, began, time.time())


def image_model(
    folder: Path, photos: Path, count: int, rows: int, side: int
) -> tuple[EncodingJob, list[Shard]]:
    """EfficientNet-Lite0 with codes of 64 bits, and so many photos in shards."""
    options = {"dim": 64}
    network = build_network("efficientnet-lite0", dim=64, side=side).eval()
    x = torch.randn(4096, 64, generator=torch.Generator().manual_seed(0))
    coder = ProductQuantizer(64, 8, 256).fit(x)
    spec = NetworkSpec("efficientnet-lite0", options, side, 3)
    Model(network, coder, spec).save(folder / "model")
    source = open_source(str(photos), rows=rows)
    shards = list(source.shards())[: math.ceil(count / rows)]
    packed = PackedModel.of(folder / "model")
    return EncodingJob(packed, source, "", count), shards


def encode_plain(job: EncodingJob, shards: list[Shard], out: Path) -> Encoded:
    """By this process."""
    return _encoded(job, shards, out, ThisProcess())


def encode_ray(
    job: EncodingJob, shards: list[Shard], out: Path, workers: int
) -> Encoded:
    """By actors of the cluster that is there."""
    return _encoded(job, shards, out, RayWorkers(workers))


def _encoded(
    job: EncodingJob, shards: list[Shard], out: Path, workers: Workers
) -> Encoded:
    model = job.model.load()
    shutil.rmtree(out, ignore_errors=True)
    table = open_for(model, job.source, "photos", str(out), True)
    started = time.perf_counter()
    own = EncodingJob(job.model, job.source, str(out), job.total)
    done = list(workers.run(TimedEncoder, own, shards))
    wall = time.perf_counter() - started
    table.append([words for one in done for words in one.written.fragments])
    rows = sum(one.written.rows for one in done)
    working = max(one.ended for one in done) - min(one.began for one in done)
    return Encoded(rows, sum(one.cpu for one in done), wall, working)


def rows_equal(folder: Path, one: str, two: str) -> bool:
    """Whether two tables hold the same rows in the same order."""
    tables = [CodeTable(folder / f"{n}.lance").dataset.to_table() for n in (one, two)]
    return bool(tables[0].equals(tables[1]))


def made_up(rows: int, dim: int, seed: int) -> Tensor:
    """Vectors around 256 centres that do not depend on the seed."""
    centres = torch.randn(256, dim, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(256, (rows,), generator=generator)
    return centres[chosen] + 0.7 * torch.randn(rows, dim, generator=generator)


def vector_coder(folder: Path, dim: int, codebooks: int) -> Path:
    """The file of a product quantizer."""
    path = folder / f"pq-{dim}.safetensors"
    ProductQuantizer(dim, codebooks, 256).fit(made_up(20_000, dim, 1)).save(path)
    return path


def real_pixels(setting: Setting) -> Tensor | None:
    """MNIST's training images, (60000, 784) from 0 to 1; None without the files."""
    if setting.data is None or not (setting.data / "MNIST").is_dir():
        return None
    dataset = open_dataset("mnist", setting.data / "MNIST")
    images = dataset.items.batch(torch.arange(setting.rows(60_000)))
    return images.flatten(1).float() / 255


def table_of(folder: Path, x: Tensor, name: str) -> tuple[CodeTable, Coder, float]:
    """A table with embeddings, its coder of 64 bits, and the processor's seconds."""
    np.save(folder / f"{name}.npy", x.numpy())
    path = folder / f"{name}.safetensors"
    ProductQuantizer(x.shape[1], 8, 256).fit(x[:20_000]).save(path)
    model, source = load(path), open_source(str(folder / f"{name}.npy"))
    model.coder.encode(x[:1000])  # compiles and loads what is needed
    out = folder / f"{name}.lance"
    table = open_for(model, source, name, str(out), True)
    started = time.process_time()
    encode_source(PackedModel.of(path), source, table, ThisProcess())
    return CodeTable(out), model.coder, time.process_time() - started

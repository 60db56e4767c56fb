"""Tables, Ray and Lance: rates of one core, equality, overlap, predictions.

Seconds are those of the processor, all threads of a worker together: other programs on
the machine do not change them. Wall times are in the notes. Every part is kept when it
is measured: a run that was stopped goes on with the next one.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.kept_rows import kept_rows
from benchmarks.report import Bar, Row, noted, skipped
from benchmarks.scale_parts import (
    Encoded,
    encode_plain,
    encode_ray,
    image_model,
    made_up,
    real_pixels,
    rows_equal,
    table_of,
)
from benchmarks.scale_search import lance_rows, scan_row
from benchmarks.vectors import Setting
from gradsnap.errors import InputError
from gradsnap.memory import keep_freed_memory
from gradsnap.scale.planning import makespan
from gradsnap.scale.ray_cluster import workers_on

IMAGES, SHARD, SIDE = 20_000, 64, 128
VECTORS, DIM = 100_000, 128


def run(setting: Setting) -> Iterator[Row]:
    """Every row of the issue's table that a machine of two cores can measure."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, part in PARTS.items():
            word = f"scale {name} {setting}"
            yield from kept_rows(word, partial(part, place, setting))


def _photos(folder: Path, setting: Setting) -> Iterator[Row]:
    try:
        yield from _images(folder, setting)
    except InputError as error:
        yield skipped("encoding images", error)


def _images(folder: Path, setting: Setting) -> Iterator[Row]:
    source = None if setting.data is None else setting.data / "tiny-imagenet-100"
    if source is None or not source.is_dir():
        raise InputError("--data names no folder with tiny-imagenet-100")
    count = 128 if setting.quick else IMAGES
    keep_freed_memory()  # as the command does, and Ray's workers
    job, shards = image_model(folder, source / "train", count, SHARD, SIDE)
    few = encode_plain(job, shards[:2], folder / "few.lance")
    plain = encode_plain(job, shards, folder / "plain.lance")
    home = Path(__file__).parent.parent  # for Ray's workers
    os.environ["PYTHONPATH"] = os.pathsep.join([str(home), str(home / "src")])
    with workers_on("ray", 2):
        one = encode_ray(job, shards, folder / "one.lance", 1)
        two = encode_ray(job, shards, folder / "two.lance", 2)
    what = f"{count:,} photos, EfficientNet-Lite0 at {SIDE} px, OpenVINO"
    yield _speed(f"{what}: --on ray, one worker / plain", one, plain, 0.9)
    yield noted(
        Row(
            "two workers / one, wall time from the first ready worker on",
            two.working,
            one.working,
            "s",
            one.working / two.working,
            Bar("≥", 1.7),
        ),
        f"needs two idle cores; {two.cpu:.1f} and {one.cpu:.1f} s of the processor, "
        f"{two.wall:.0f} and {one.wall:.0f} s with their start",
    )
    same = rows_equal(folder, "plain", "one") and rows_equal(folder, "plain", "two")
    yield Row("tables equal, row for row and bit for bit", float(same), bar=Bar("≥", 1))
    rate = few.rows / few.cpu
    told = makespan([SHARD / rate] * len(shards), workers=1)
    yield noted(
        Row(
            f"seconds predicted from {few.rows} photos / measured",
            told,
            plain.cpu,
            "s",
            told / plain.cpu,
        ),
        f"{plain.rows / plain.cpu:.1f} photos a second and core",
    )


def _speed(what: str, ours: Encoded, theirs: Encoded, bar: float) -> Row:
    row = Row(
        what,
        ours.rows / ours.cpu,
        theirs.rows / theirs.cpu,
        "rows/s",
        theirs.cpu / ours.cpu,
        Bar("≥", bar),
    )
    return noted(row, f"of a core; wall {ours.wall:.0f} s and {theirs.wall:.0f} s")


def _vectors(folder: Path, setting: Setting) -> Iterator[Row]:
    count = 20_000 if setting.quick else VECTORS
    rows = made_up(count, DIM, 2)
    table, coder, took = table_of(folder, rows, "vectors")
    yield noted(
        Row(f"{DIM}-d vectors, 64 bits, into a table", count / took, unit="rows/s"),
        f"a core, read, encoded and written with embeddings, {count:,} of them",
    )
    yield scan_row(coder, rows)
    yield from lance_rows(table, coder, rows, setting)
    pixels = None if setting.data is None else real_pixels(setting)
    if pixels is None:
        yield skipped("Lance on MNIST's pixels", "--data names no folder with MNIST")
        return
    table, coder, took = table_of(folder, pixels, "pixels")
    yield from lance_rows(table, coder, pixels, setting, "MNIST's pixels")


PARTS: dict[str, Callable[[Path, Setting], Iterator[Row]]] = {
    "photos": _photos,
    "vectors": _vectors,
}
"""Each by itself; kept when all of its rows are measured."""

"""Encoding into a table, as ``gradsnap encode`` asks for it."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsnap.scale.encoding import Progress

TELL_SECONDS = 5.0
"""Between two lines of progress."""

Asked = tuple[str | None, int | None, bool, bool, str | None, str | None, int]
"""Options: on, workers, keep_half, add, root, network_from, shard_rows."""


def check_options(out: str, **options: Any) -> None:
    """Refuses options of a table for what is none.

    Raises:
        InputError: one of them is given.
    """
    from gradsnap.errors import InputError

    for name, value in options.items():
        if value:
            flag = name.replace("_", "-")
            raise InputError(f"--{flag} is for a table: let {out} end in .lance")


def encode_table(
    model: str, source: str, out: str, asked: Asked, *, quiet: bool
) -> dict[str, Any]:
    """Writes or continues a table; says what it holds."""
    from gradsnap.inference.model import load
    from gradsnap.scale.encoding import encode_source, open_for
    from gradsnap.scale.error_table import errors_address
    from gradsnap.scale.packed_model import PackedModel
    from gradsnap.scale.ray_cluster import workers_on
    from gradsnap.scale.sources import open_source
    from gradsnap.scale.table import CodeTable
    from gradsnap.scale.workers import check_on

    on, count, half, add, root, network_from, rows = asked
    check_on(on)
    opened = load(model, network_from)
    size = opened.spec.side, opened.spec.channels
    read = open_source(source, root, size, rows)
    table = open_for(opened, read, source, out, half)
    packed = PackedModel.of(model, network_from)
    tell = None if quiet else teller(sys.stderr.write)
    with workers_on(on, count) as workers:
        done = encode_source(packed, read, table, workers, add=add, tell=tell)
    table = CodeTable(out)
    facts = {
        "items": len(table),
        "new": done.rows,
        "known_already": done.known,
        "bad": done.bad,
        "bits": opened.coder.bits,
        "shards": done.of_shards,
        "shards_done_before": done.begun_at,
        "version": table.dataset.version,
        "seconds": round(done.seconds, 2),
        "table": out,
    }
    return facts | ({"errors": errors_address(out)} if done.bad else {})


def teller(write: Callable[[str], object]) -> "Callable[[Progress], None]":
    """Writes a line of progress with an estimate, now and then."""
    last = time.monotonic()

    def tell(now: "Progress") -> None:
        nonlocal last
        if time.monotonic() - last < TELL_SECONDS or now.shards == now.of_shards:
            return
        last = time.monotonic()
        write(line_of(now) + "\n")

    return tell


def line_of(now: "Progress") -> str:
    """How far a job is, how fast, and how long it will take."""
    rate = now.rows / now.seconds if now.seconds else 0.0
    left = now.seconds_left
    rest = "" if left is None else f", about {_duration(left)} left"
    bad = f", {now.bad:,} bad" if now.bad else ""
    return (
        f"{now.shards:,} of {now.of_shards:,} shards, {now.rows:,} rows{bad}, "
        f"{rate:,.0f} rows/s{rest}"
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"

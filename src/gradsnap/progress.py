"""A progress bar that appears only when a thing takes long and somebody looks."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

Item = TypeVar("Item")

PATIENCE_SECONDS = 2.0


def track(items: Iterable[Item], description: str) -> Iterator[Item]:
    """Yields the items; after two seconds draws a bar on a terminal's stderr.

    Nothing is drawn when stderr is not a terminal, so logs and tests stay clean.

    Args:
        items: what to go through; its length, where it has one, is the bar's.
        description: what is being done, for the bar's left side.

    Example:
        >>> sum(track(range(4), "adding"))
        6
    """
    if not sys.stderr.isatty():
        yield from items
        return
    total = len(items) if isinstance(items, Sized) else None
    yield from _drawn(items, description, total)


def _drawn(
    items: Iterable[Item], description: str, total: int | None
) -> Iterator[Item]:
    started = time.monotonic()
    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=total)
    visible = False
    try:
        for done, item in enumerate(items):
            if not visible and time.monotonic() - started > PATIENCE_SECONDS:
                bar.start()
                visible = True
            bar.update(task, completed=done)
            yield item
    finally:
        bar.stop()

"""Progress bars that appear only when a thing takes long and somebody looks."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress, TaskID, TimeElapsedColumn

Item = TypeVar("Item")

PATIENCE_SECONDS = 2.0

_screen = threading.Lock()
"""Held by the one bar that is drawn; bars inside it stay silent."""


def is_drawn() -> bool:
    """Whether a bar is on the screen now; others stay silent meanwhile."""
    return _screen.locked()


@contextlib.contextmanager
def silenced(quiet: bool) -> Iterator[None]:
    """Draws no bar inside, if quiet: the screen is held by none."""
    taken = quiet and _screen.acquire(blocking=False)
    try:
        yield
    finally:
        if taken:
            _screen.release()


def track(items: Iterable[Item], description: str) -> Iterator[Item]:
    """Yields the items; after two seconds draws a bar on a terminal's stderr.

    Nothing is drawn when stderr is not a terminal, so logs and tests stay clean, nor
    inside a bar that is drawn already.

    Args:
        items: what to go through; its length, where it has one, is the bar's.
        description: what is being done, for the bar's left side.

    Example:
        >>> sum(track(range(4), "adding"))
        6
    """
    console = _terminal()
    if console is None:
        yield from items
        return
    total = len(items) if isinstance(items, Sized) else None
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())  # it moves
    bar = Progress(*columns, console=console, transient=True)
    yield from _with_bar(items, bar, bar.add_task(description, total=total))


@contextlib.contextmanager
def waiting(description: str, patience: float | None = None) -> Iterator[None]:
    """Draws a moving sign on a terminal's stderr where what is inside takes long.

    Args:
        description: what is being done, beside the sign.
        patience: seconds until it is drawn; None: two.
    """
    console = _terminal()
    if console is None:
        yield
        return
    sign, drawn = console.status(description), []

    def draw() -> None:
        if _screen.acquire(blocking=False):
            drawn.append(True)
            sign.start()

    seconds = PATIENCE_SECONDS if patience is None else patience
    timer = threading.Timer(max(seconds, 0.0), draw)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if drawn:
            sign.stop()
            _screen.release()


def _terminal() -> Console | None:
    """Where bars are drawn; None where nobody looks."""
    console = Console(stderr=True) if sys.stderr.isatty() else None
    return console if console is not None and console.is_interactive else None


def _with_bar(items: Iterable[Item], bar: Progress, task: TaskID) -> Iterator[Item]:
    started = time.monotonic()
    visible = False
    try:
        for done, item in enumerate(items):
            late = time.monotonic() - started > PATIENCE_SECONDS
            if late and not visible and _screen.acquire(blocking=False):
                visible = True
                bar.start()
            bar.update(task, completed=done)
            yield item
    finally:
        if visible:
            bar.stop()
            _screen.release()

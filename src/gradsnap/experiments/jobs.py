"""The work of an experiment: runs that give cells, under one bar."""

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from gradsnap.errors import GradsnapError
from gradsnap.experiments.results import Cell
from gradsnap.progress import track

logger = logging.getLogger(__name__)

Work = Generator[str, None, list[Cell]]
"""Yields a sentence after each finished run, and returns the cells they give."""


@dataclass(frozen=True)
class Job:
    """Some runs that give cells.

    Args:
        name: what it is about, where it fails.
        runs: how many.
        work: does them.
        failed: the cells in its place, given the reason.
    """

    name: str
    runs: int
    work: Callable[[], Work]
    failed: Callable[[str], list[Cell]]


def carry_out(
    jobs: Sequence[Job], title: str, keep: Callable[[list[Cell]], None]
) -> None:
    """Does all jobs, one bar over their runs; what fails does not stop the others.

    Args:
        jobs: in order.
        title: at the left of the bar.
        keep: takes the cells of each job as soon as they are there.
    """
    total = sum(job.runs for job in jobs)
    clock = Clock(total)
    drawn = sys.stderr.isatty()  # lines would tear the bar
    for said in track(_Counted(_runs(jobs, keep), total), title):
        logger.log(logging.DEBUG if drawn else logging.INFO, "%s", clock.told(said))


@dataclass
class Clock:
    """Says how far the runs are, and when they may be done.

    Runs that were in the cache take no time, so that only the others are counted.
    """

    total: int
    done: int = 0
    slow: int = 0
    spent: float = 0.0
    since: float = field(default_factory=time.monotonic)

    def told(self, said: str) -> str:
        """The sentence about a finished run, with an estimate."""
        now = time.monotonic()
        took = now - self.since
        self.since, self.done = now, self.done + 1
        if took > FROM_CACHE:
            self.slow, self.spent = self.slow + 1, self.spent + took
        left = self.total - self.done
        rest = f", about {duration(left * self.spent / self.slow)}" if self.slow else ""
        return f"{self.done} of {self.total}{rest if left else ''}: {said}"


FROM_CACHE = 0.5
"""Seconds that a run from the cache takes at most."""


def duration(seconds: float) -> str:
    """Hours and minutes, or minutes, or seconds.

    >>> duration(4000), duration(200), duration(12.3)
    ('1 h 07 min', '3 min', '12 s')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return (
        f"{minutes} min"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )


@dataclass(frozen=True)
class _Counted:
    """An iterator of known length."""

    items: Iterator[str]
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return self.items


def _runs(jobs: Sequence[Job], keep: Callable[[list[Cell]], None]) -> Iterator[str]:
    for job in jobs:
        try:
            cells = yield from job.work()
        except (GradsnapError, RuntimeError) as error:  # torch's are RuntimeErrors
            logger.warning("%s failed: %s", job.name, error)
            cells = job.failed(str(error))
        keep(cells)

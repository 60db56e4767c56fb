"""Who does the work: this process, or actors of a Ray cluster; results in order.

Work is a callable that is made once a worker (it holds a model, or opens an index) and
then called with one job after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gradsnap.errors import InputError

Job = TypeVar("Job")
Result = TypeVar("Result")

Make = Callable[[Any], Callable[[Job], Result]]
"""Makes what a worker holds, of what it has to know."""


class Workers(Protocol):
    """Whoever does work."""

    def run(
        self, make: Make[Job, Result], known: Any, jobs: Sequence[Job]
    ) -> Iterator[Result]:
        """What comes of each job, in the order of the jobs."""


@dataclass(frozen=True)
class ThisProcess:
    """One after the other, here."""

    def run(
        self, make: Make[Job, Result], known: Any, jobs: Sequence[Job]
    ) -> Iterator[Result]:
        """What comes of each job, in the order of the jobs."""
        work = make(known)
        for job in jobs:
            yield work(job)


def check_on(on: str | None) -> None:
    """Refuses what is no place to work on.

    Raises:
        InputError: it is neither ``ray`` nor ``ray://HOST:PORT``.
    """
    if on is not None and on != "ray" and not on.startswith("ray://"):
        raise InputError(
            f"--on cannot be {on!r}; choose ray, for workers on this machine or on the "
            "cluster that RAY_ADDRESS names, or ray://HOST:PORT"
        )

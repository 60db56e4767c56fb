"""Tries in forked processes: a hang is ended, a crash is counted, the rest goes on."""

import gc
import json
import logging
import os
import random
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from storm import guard, processes
from storm.kind import Kind
from storm.outcomes import Failure, Report, Tally, failure_of


def scratch() -> Path:
    """A new folder in memory where there is such a place."""
    shared = Path("/dev/shm")
    parent = shared if os.access(shared, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="storm-", dir=parent))


class Worker:
    """A forked process that works through its seeds and reports by a pipe."""

    def __init__(self, kind: Kind, seeds: Iterator[int]) -> None:
        self.kind = kind
        self.place = scratch()
        reads, writes = os.pipe()
        chosen = [seed for _, seed in zip(range(kind.renewed), seeds, strict=False)]
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reads)
            _work(kind, chosen, self.place, writes, parent)
        processes.lead_group(self.pid)
        os.close(writes)
        self.reads, self._rest = reads, b""
        self.current: int | None = None
        self.left = set(chosen)
        self.heard = time.monotonic()
        self.used = 0.0

    def reports(self) -> Iterator[Report]:
        """What was said since."""
        quiet = not select.select([self.reads], [], [], 0)[0]
        data = b"" if quiet else os.read(self.reads, 65_536)
        if not data:  # it has ended; what it started may still hold the pipe
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.heard = time.monotonic()
        known = processes.seen(self.pid)
        self.used = known.seconds if known else 0.0
        for line in lines:
            report = Report(*json.loads(line))
            if report.outcome == "begun":
                self.current = report.seed
            else:
                self.current = None
                self.left.discard(report.seed)
                yield report

    @property
    def hangs(self) -> bool:
        """Whether its try has worked, or waited, for too long."""
        if self.current is None:
            return False
        waited = time.monotonic() - self.heard
        if waited < self.kind.patience:
            return False
        every = list(processes.group(self.pid))
        worked = sum(one.seconds for one in every) - self.used
        # Asleep for good, and not just now on a machine that others keep busy.
        asleep = not any(one.state in "RD" for one in every) and worked < waited / 20
        return asleep or worked > self.kind.patience

    @property
    def ended(self) -> bool:
        """Whether the process is there no more."""
        known = processes.seen(self.pid)
        return known is None or known.state == "Z"

    def end(self) -> int:
        """Ends the process and what it started; its exit status."""
        processes.end_group(self.pid)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.reads)
        shutil.rmtree(self.place, ignore_errors=True)
        return status


def run(
    kind: Kind,
    seeds: Iterator[int],
    deadline: float,
    *,
    workers: int,
    told: Callable[[Failure], None],
) -> Tally:
    """Tries one kind until the seeds or the time are over.

    Args:
        kind: of the tries.
        seeds: of the tries, one each.
        deadline: in ``time.monotonic`` seconds.
        workers: processes side by side.
        told: called with each failure as it is seen.
    """
    tally, started, worked = Tally(kind.name), time.monotonic(), processes.worked()
    gc.collect()
    gc.freeze()  # what is here already need be copied by no worker's collector
    crew = [Worker(kind, seeds) for _ in range(workers)]
    try:
        while crew and time.monotonic() < deadline:
            for worker in _with_news(crew):
                if not _heard(worker, tally, told):
                    crew.remove(worker)
                    crew += _renewed(kind, worker, seeds)
    finally:
        for worker in crew:
            worker.end()
    tally.seconds = time.monotonic() - started
    tally.worked = processes.worked() - worked
    return tally


def _with_news(crew: list[Worker]) -> list[Worker]:
    ready, _, _ = select.select([one.reads for one in crew], [], [], 0.5)
    return [one for one in crew if one.reads in ready or one.hangs or one.ended]


def _heard(worker: Worker, tally: Tally, told: Callable[[Failure], None]) -> bool:
    """Counts what a worker said; whether it is still at work."""
    failures: list[Failure | None] = []
    alive = True
    try:
        if worker.hangs:
            raise TimeoutError
        failures += [tally.add(report) for report in worker.reports()]
    except TimeoutError:
        failures.append(_last_words(worker, tally, "hang", "no end in sight"))
        alive = False
        worker.end()
    except EOFError:
        alive = False
        status = worker.end()
        if worker.current is not None:
            what = f"ended by signal {os.WTERMSIG(status)}" if status else "ended"
            failures.append(_last_words(worker, tally, "crash", what))
    for failure in failures:
        if failure is not None:
            told(failure)
    return alive


def _last_words(worker: Worker, tally: Tally, outcome: str, words: str) -> Any:
    seed = worker.current
    if seed is None:
        return None
    worker.left.discard(seed)
    return tally.add(Report(seed, outcome, words, 0))


def _renewed(kind: Kind, before: Worker, seeds: Iterator[int]) -> list[Worker]:
    """A process for what the one before has left, then for new seeds."""
    rest = iter(sorted(before.left))
    worker = Worker(kind, rest if before.left else seeds)
    if worker.left:
        return [worker]
    worker.end()
    return []


def _work(
    kind: Kind, seeds: list[int], place: Path, pipe: int, parent: int
) -> NoReturn:
    """The life of a forked process; it ends with the one that made it."""
    processes.lead_group()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    processes.limit_memory()
    guard.install()
    logging.disable()
    warnings.filterwarnings("error", category=RuntimeWarning, module=r"gradsnap\.")
    for seed in seeds:
        if os.getppid() != parent:
            shutil.rmtree(place, ignore_errors=True)
            break
        _say(pipe, seed, "begun", "", 0)
        outcome, words = one_try(kind, seed, place / str(seed))
        _say(pipe, seed, outcome, words, kind.steps)
    os._exit(0)


def one_try(kind: Kind, seed: int, place: Path) -> tuple[str, str]:
    """Outcome and words of the try of a seed, in a new folder."""
    place.mkdir()
    (place.parent / guard.SECRET).write_text("nobody may read this")
    guard.arm(True)
    try:
        return kind.attempt(random.Random(f"{kind.name} {seed}"), place), ""
    except BaseException as error:  # whatever it is, it is to be counted
        return failure_of(error), traceback.format_exc()
    finally:
        guard.arm(False)
        shutil.rmtree(place, ignore_errors=True)


def _say(pipe: int, *words: Any) -> None:
    line = (json.dumps(words) + "\n").encode()
    while line:
        line = line[os.write(pipe, line) :]

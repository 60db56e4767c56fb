"""Works killed, torn or failed at each of their calls that write: old or new."""

import contextlib
import errno
import os
import random
import shutil
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gradsnap.errors import GradsnapError
from storm import shim
from storm.kind import Kind
from storm.outcomes import SilentLoss, WrongAnswer
from storm.shim import Mode
from storm.works import WORKS, Work, copied

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)
CLEANING = ("unlink", "rmdir", "fsync")
"""Calls whose failure may leave a file behind, or the new state after an error."""


class Ready(NamedTuple):
    """A work, the state before it, and what it must lead to."""

    work: Work
    before: Path
    old: Any
    new: Any
    calls: list[str]
    """What each of its calls is."""


def made_ready(work: Work, place: Path, do: Callable[[Path], list[str]]) -> Ready:
    """The states before and after a work that is done once.

    Args:
        work: what is done.
        place: for the state before.
        do: does it in a folder, and tells its calls where they are counted.
    """
    before = place / work.name.replace(" ", "_")
    before.mkdir()
    work.prepare(before)
    done = copied(before, place / "done")
    calls = do(done)
    ready = Ready(work, before, work.state(before), work.state(done), calls)
    shutil.rmtree(done)
    return ready


class _Stopped(Kind):
    """Works that are made ready once: what they do is counted."""

    needs_shim = True
    renewed = 40
    patience = 120.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        if not shim.loaded():
            raise RuntimeError("kills need the shim: start by python -m storm")
        (place / "sources").mkdir()
        self.ready = [self._made(WORKS[name](place / "sources")) for name in WORKS]

    def _made(self, work: Work) -> Ready:
        def count(done: Path) -> list[str]:
            log = self.place / "calls"
            in_child(work, done, 0, Mode.COUNT, 0, log)
            return [words[1] for words, _ in read_log(log) if words[0] == "call"]

        return made_ready(work, self.place, count)


class Kills(_Stopped):
    """SIGKILL before or amid the n-th call that writes; then everything as it was."""

    name = "kills"
    weight = 140.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.every = [
            (one, at, mode)
            for one in self.ready
            for mode in (Mode.KILL, Mode.TEAR)
            for at in range(1, len(one.calls) + 1)
        ]
        random.Random(0).shuffle(self.every)

    def attempt(self, numbers: random.Random, place: Path) -> str:
        turn = int(place.name) % len(self.every)  # seeds in a row come to all of them
        one, at, mode = self.every[turn]
        folder = copied(one.before, place / "f")
        status = in_child(one.work, folder, at, mode)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            raise WrongAnswer(f"{one.work.name} was to be killed, ended with {status}")
        words = f"{one.work.name}, {mode.name} at {one.calls[at - 1]} {at}"
        check_state(one, folder, words)
        check_again(one, folder, words)
        return "answered"

    def said(self, seeds: list[int], steps: int) -> str:
        tried = {seed % len(self.every) for seed in seeds}
        return f"{len(tried)} of {len(self.every)} ways, two at each call that writes"


class Failures(_Stopped):
    """The n-th call fails, or the disk is full from then on: a sentence, as it was."""

    name = "failures"
    weight = 50.0

    def attempt(self, numbers: random.Random, place: Path) -> str:
        one = numbers.choice(self.ready)
        at = numbers.randrange(1, len(one.calls) + 1)
        mode = numbers.choice((Mode.FAIL, Mode.FULL))
        error = errno.ENOSPC if mode is Mode.FULL else numbers.choice(ERRORS)
        folder = copied(one.before, place / "f")
        status = in_child(one.work, folder, at, mode, error)
        words = f"{one.work.name}, {mode.name} {error} at {one.calls[at - 1]} {at}"
        if os.WIFSIGNALED(status):
            raise WrongAnswer(f"{words}: ended by signal {os.WTERMSIG(status)}")
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 1):
            raise RuntimeError(f"{words}: exit {code}; the traceback is above")
        state = check_state(one, folder, words)
        if code == 0 and state != one.new:
            raise SilentLoss(f"{words}: said to be done, and is not")
        if code and one.calls[at - 1] not in CLEANING:
            _check_tidy(one, folder, words)
        check_again(one, folder, words)
        return "refused" if code else "answered"


def _check_tidy(one: Ready, folder: Path, words: str) -> None:
    """No half file stays behind; a run's folder and its checkpoints may."""
    left = [path for path in folder.rglob("*") if path.name.startswith(".")]
    if left:
        raise WrongAnswer(f"{words}: left {[path.name for path in left]}")


def check_state(one: Ready, folder: Path, words: str) -> Any:
    """The state, which must be the old or the new one."""
    try:
        state = one.work.state(folder)
    except GradsnapError as error:
        raise SilentLoss(f"{words}: cannot be opened: {error}") from error
    if state not in (one.old, one.new):
        raise SilentLoss(f"{words}: a third state: {str(state)[:200]}")
    return state


def check_again(one: Ready, folder: Path, words: str) -> None:
    """Done again, it ends as if nothing had happened."""
    code = one.work.again(folder)
    if code or one.work.state(folder) != one.new:
        raise SilentLoss(f"{words}: done again it ends elsewhere, exit {code}")


def in_child(
    work: Work,
    folder: Path,
    at: int,
    mode: Mode,
    error: int = 0,
    log: Path | None = None,
) -> int:
    """Does the work in a forked process under the shim; its wait status."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 2
    try:
        record = -1 if log is None else os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        shim.arm(folder, at, mode, error, record)
        code = work.do(folder)
    except GradsnapError:
        code = 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            shim.disarm()
        os._exit(code)


def read_log(path: Path) -> list[tuple[list[str], bytes]]:
    """What the shim wrote down: words of each event, and the bytes of a write."""
    data, at, events = path.read_bytes(), 0, []
    path.unlink()
    while at < len(data):
        end = data.index(b"\n", at)
        words = os.fsdecode(data[at:end]).split("\t")
        size = int(words[4])
        events.append((words, data[end + 1 : end + 1 + size]))
        at = end + 1 + size
    return events

"""Verbs in hard times: one sentence, an exit code of the table, nothing lost."""

import contextlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storm import guard, hardships
from storm.commands import CODES
from storm.hardships import Change, Ended
from storm.kills import Ready, check_again, check_state, made_ready
from storm.kind import Kind
from storm.outcomes import SilentLoss, WrongAnswer
from storm.works import WORKS, Verb, copied

BEGINNINGS = ("error: ", "interrupted", "stopped: ", "stopping, ")
ROOM = 65_536
"""Kilobytes of a disk that has room again."""


class Limits(Kind):
    """Full and read-only disks, no permission, little memory, unread output, Ctrl-C."""

    name = "limits"
    weight = 60.0
    renewed = 40
    patience = 180.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        os.chmod(place, 0o755)
        (place / "sources").mkdir()
        made = [one(place / "sources") for one in WORKS.values()]
        self.ready = [self._made(one) for one in made if isinstance(one, Verb)]
        self.times: list[Callable[..., Ended]] = [
            self._memory, self._output, self._interrupts, self._clock,
        ]  # fmt: skip
        if hardships.can_mount():
            self.times += [self._full_disk, self._read_only, self._nobody]
        else:
            print("left out: full and read-only disks, no permission (needs root)")

    def _made(self, work: Verb) -> Ready:
        def do(done: Path) -> list[str]:
            if work.do(done):
                raise RuntimeError(f"{work.name} cannot be done")
            return []

        return made_ready(work, self.place, do)

    def attempt(self, numbers: random.Random, place: Path) -> str:
        one, time = numbers.choice(self.ready), numbers.choice(self.times)
        words = f"{one.work.name}, {time.__name__.strip('_')}"
        guard.arm(False)  # mounting starts programs
        with contextlib.ExitStack() as stack:
            ended = time(one, place, numbers, stack)
            _check_end(ended, words)
            state = check_state(one, place / "f", words)
            if ended.code == 0 and state != one.new:
                raise SilentLoss(f"{words}: said to be done, and is not")
            _check_tidy(place / "f", words)
            check_again(one, place / "f", words)
        return "refused" if ended.code else "answered"

    def _run(
        self, one: Ready, place: Path, before: Change, beside: Any = hardships.nothing
    ) -> Ended:
        assert isinstance(one.work, Verb)
        words = one.work.words(place / "f")
        return hardships.command_in_child(words, place / "err", before, beside)

    def _memory(self, one: Ready, place: Path, numbers: Any, _: Any) -> Ended:
        copied(one.before, place / "f")
        most = 2 ** numbers.randrange(0, 11)
        return self._run(one, place, hardships.little_memory(most))

    def _output(self, one: Ready, place: Path, numbers: Any, _: Any) -> Ended:
        copied(one.before, place / "f")
        ways = (
            hardships.closed_output, hardships.unread_output, hardships.full_output,
        )  # fmt: skip
        return self._run(one, place, numbers.choice(ways))

    def _interrupts(self, one: Ready, place: Path, numbers: Any, _: Any) -> Ended:
        copied(one.before, place / "f")
        after, again = numbers.uniform(0, 0.5), numbers.choice((0.0, 0.001, 0.01))
        strike = hardships.interrupting(after, again)
        return self._run(one, place, hardships.nothing, strike)

    def _clock(self, one: Ready, place: Path, numbers: Any, _: Any) -> Ended:
        copied(one.before, place / "f")
        return self._run(one, place, hardships.clock_back)

    def _on_disk(self, one: Ready, place: Path, stack: Any) -> Path:
        """The state before, on a disk of its own."""
        folder = place / "f"
        stack.enter_context(hardships.small_disk(folder, ROOM))
        shutil.copytree(one.before, folder, dirs_exist_ok=True)
        return folder

    def _full_disk(self, one: Ready, place: Path, numbers: Any, stack: Any) -> Ended:
        folder = self._on_disk(one, place, stack)
        filler = folder / "filler"
        room = os.statvfs(folder)
        left = numbers.choice((0, 1, 2, 3, 5, 8, 12, 20)) * 4096
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_bsize - left)
        ended = self._run(one, place, hardships.nothing)
        filler.unlink()
        return ended

    def _read_only(self, one: Ready, place: Path, _: Any, stack: Any) -> Ended:
        folder = self._on_disk(one, place, stack)
        hardships.read_only(folder)
        ended = self._run(one, place, hardships.nothing)
        hardships.writable(folder, ROOM)
        return ended

    def _nobody(self, one: Ready, place: Path, *_: Any) -> Ended:
        copied(one.before, place / "f")
        for folder in (place.parent, place):
            os.chmod(folder, 0o755)
        (place / "err").touch()
        os.chmod(place / "err", 0o666)
        return self._run(one, place, hardships.nobody)


def _check_end(ended: Ended, words: str) -> None:
    if ended.code not in CODES:
        raise WrongAnswer(f"{words}: exit code {ended.code}: {ended.err[-600:]}")
    if "Traceback (most recent" in ended.err:
        raise RuntimeError(f"{words}: {ended.err}")
    lines = [line for line in ended.err.splitlines() if line.startswith(BEGINNINGS)]
    if ended.code and not lines:
        raise WrongAnswer(f"{words}: exit code {ended.code}, and no word: {ended.err}")


def _check_tidy(folder: Path, words: str) -> None:
    left = [path.name for path in folder.rglob(".*")]
    if left:
        raise WrongAnswer(f"{words}: left {left}")

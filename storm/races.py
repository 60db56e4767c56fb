"""Writers, readers and compaction at once, in threads and in processes."""

import contextlib
import os
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gradsnap.errors import InputError
from gradsnap.index import Index, load_index
from storm import good
from storm.kind import Kind
from storm.outcomes import SilentLoss, WrongAnswer

Work = Callable[[], Any]

WRITES, READS = 3, 4
"""Items that each writer adds, and times that each reader opens."""

WRITERS = ("w0", "w1")


class Races(Kind):
    """Several writers, readers beside them, compaction while others search."""

    name = "races"
    weight = 44.0
    renewed = 40
    patience = 60.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        good.learn_all()

    def attempt(self, numbers: random.Random, place: Path) -> str:
        folder = good.saved(numbers.choice(list(good.VARIANTS)), place / "i").folder
        way = numbers.choice((self._in_threads, self._in_processes, self._one_index))
        way(folder, numbers)
        return "answered"

    def _in_threads(self, folder: Path, numbers: random.Random) -> None:
        """Writers and readers of one folder in threads."""
        works = [partial(writes, folder, name) for name in WRITERS]
        together([*works, *[partial(reads, folder, READS)] * 2])
        _check_all_there(folder)

    def _in_processes(self, folder: Path, numbers: random.Random) -> None:
        """The same in processes."""
        works = [partial(writes, folder, name) for name in WRITERS]
        children = [_forked(work) for work in [*works, partial(reads, folder, READS)]]
        reads(folder, READS)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        if any(codes):
            raise WrongAnswer(f"processes ended with {codes}")
        _check_all_there(folder)

    def _one_index(self, folder: Path, numbers: random.Random) -> None:
        """One open index searched by threads while another compacts its folder."""
        index = load_index(folder)
        query = good.vectors_for(index, 3, 1)
        expected = index.search(query, 5)
        works: list[Work] = [partial(same, index, query, expected)] * 3
        together([*works, lambda: load_index(folder).compact().save(folder)])


def together(works: Sequence[Work]) -> None:
    """Runs works in threads; raises the first thing that went wrong."""
    ended: list[BaseException] = []

    def guarded(work: Work) -> None:
        try:
            work()
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if ended:
        raise ended[0]


def writes(folder: Path, name: str) -> None:
    """Adds a few items one by one; who comes too late loads again and repeats."""
    for number in range(WRITES):
        for _ in range(1000):
            index = load_index(folder)
            ids: Any = [f"{name}-{number}"] if index.items.named else None
            index.add(good.vectors_for(index, 1, number), ids, {"label": [5]})
            if number == 1:
                index.compact()
            with contextlib.suppress(InputError):
                index.save(folder)
                break
        else:
            raise WrongAnswer(f"{name} never had its turn")


def reads(folder: Path, times: int) -> None:
    """Opens and searches; every version is whole."""
    for _ in range(times):
        index = load_index(folder)
        found = index.search(good.vectors_for(index, 2, 3), 4)
        if not bool(found.distances[:, :4].isfinite().all()):
            raise WrongAnswer("a reader found less than there was from the beginning")


def same(index: Index, query: Any, expected: Any) -> None:
    """A version that is open answers the same, whatever becomes of its folder."""
    for _ in range(5):
        found = index.search(query, 5)
        if found.distances.tolist() != expected.distances.tolist():
            raise WrongAnswer("an open index answers otherwise while it is compacted")


def _forked(work: Work) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def _check_all_there(folder: Path) -> None:
    index = load_index(folder, verify=True)
    want = good.ITEMS - 1 + WRITES * len(WRITERS)
    if len(index) != want:
        raise SilentLoss(f"{len(index)} items of {want}")

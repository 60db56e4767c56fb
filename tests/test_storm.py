"""The short form of the storm: every kind a few times, and lives of indexes."""

import faulthandler
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storm import damage, guard, processes, workers
from storm.kills import Kills
from storm.kind import Kind
from storm.kinds import KINDS
from storm.lives import Lives, live
from storm.outcomes import CodeExecuted, Tally, WrongAnswer, failure_of, table

ROOT = Path(__file__).parent.parent
QUICK = {
    "damaged-indexes": 20,
    "sealed-indexes": 20,
    "manifests": 30,
    "images": 30,
    "vector-files": 30,
    "pickles": 10,
    "settings": 60,
    "numbers": 15,
}
"""Tries of the fast tests, in this process."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_a_few_tries(name: str, tmp_path: Path) -> None:
    (tmp_path / "kind").mkdir()
    kind = KINDS[name](tmp_path / "kind")
    for seed in range(QUICK[name]):
        outcome, words = workers.one_try(kind, seed, tmp_path / str(seed))
        assert outcome in ("refused", "answered"), (seed, words)


def test_lives_of_indexes(tmp_path: Path) -> None:
    live(0, tmp_path, examples=5, length=15)
    assert not list(tmp_path.iterdir())


def in_process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "storm", "--seed", "7", "--workers", "1", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KINDS if name not in QUICK])
def test_tries_in_processes(name: str) -> None:
    done = in_process("--kind", name, "--tries", "25")
    assert done.returncode == 0, done.stdout + done.stderr


class Broken(Kind):
    """Fails in every way there is."""

    name = "broken"
    patience = 1.0

    def attempt(self, numbers: object, place: Path) -> str:
        way = int(place.name) % 6
        if way == 0:
            raise KeyError("not ours")
        if way == 1:
            raise WrongAnswer("two and two are five")
        if way == 2:
            faulthandler.disable()  # its traceback would look like a failed test
            os.kill(os.getpid(), 11)
        if way == 3:
            while True:
                pass
        if way == 4:
            os.system("true")
        return "answered"


def test_every_failure_is_counted(tmp_path: Path) -> None:
    """The storm can fail: a traceback, a wrong answer, a crash, a hang, a command."""
    told: list[object] = []
    tally = workers.run(
        Broken(tmp_path), iter(range(6)), float("inf"), workers=1, told=told.append
    )
    found = {failure.seed: failure.outcome for failure in tally.failures}
    assert found == {
        0: "traceback", 1: "wrong answer", 2: "crash", 3: "hang", 4: "code executed",
    }  # fmt: skip
    assert (tally.tries, len(told)) == (6, 5)
    assert "| broken | 6 | 0 | 1 | 1 | 1 | 1 | 1 | 0 | 1 |" in table([tally])
    assert "make storm STORM_SEED=2 KIND=broken TRIES=1" in str(tally.failures[2])


class Lingering(Kind):
    """Starts a process that outlives its try, and says where it is to be found."""

    name = "lingering"
    patience = 1.0

    def attempt(self, numbers: object, place: Path) -> str:
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        (self.place / "pid").write_text(str(child))
        if int(place.name):
            os.waitpid(child, 0)
        return "answered"


@pytest.mark.parametrize("seed", [0, 1])
def test_what_a_try_started_ends_with_its_worker(tmp_path: Path, seed: int) -> None:
    """A child that outlives its try, and one that is waited for in vain."""
    kind, never = Lingering(tmp_path), float("inf")
    tally = workers.run(kind, iter([seed]), never, workers=1, told=lambda failure: None)
    assert tally.counts == {"hang" if seed else "answered": 1}
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):  # a busy machine takes its time to end it
        left = processes.seen(child)
        if left is None or left.state == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"process {child} outlived its worker: {left}")


def test_shares_are_seconds_of_twenty_minutes() -> None:
    assert sum(kind.weight for kind in KINDS.values()) == 20 * 60


def test_a_kind_counts_what_it_did() -> None:
    lives = Lives.__new__(Lives)
    assert lives.said([0, 1], 600) == "600 steps"
    kills = Kills.__new__(Kills)
    kills.every = [None] * 5  # type: ignore[list-item]
    assert kills.said([0, 1, 6], 3).startswith("2 of 5 ways")


def test_nothing_outside_may_be_opened(tmp_path: Path) -> None:
    path = tmp_path / guard.SECRET
    path.write_text("x")
    script = (
        "from storm import guard; guard.install(); guard.arm(True)\n"
        f"try: open({str(path)!r})\n"
        "except guard.CodeExecuted: raise SystemExit(7)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert done.returncode == 7
    assert failure_of(CodeExecuted()) == "code executed"
    assert Tally("x").tries == 0


def test_a_change_does_not_change_the_next_ones() -> None:
    before = repr(damage.VALUES)
    for seed in range(300):  # values put in place are changed in their turn
        content = {"a": [1, {"b": 2}], "c": []}
        for _ in range(3):
            damage.changed_value(content, random.Random(seed))
    assert repr(damage.VALUES) == before

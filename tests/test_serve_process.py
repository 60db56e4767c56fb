"""A real server process: killed and started again, written to, told to end."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi", reason="install gradsnap[serve]")

import gradsnap as gs
from gradsnap.serve.client import ServerError
from tests.conftest import clustered
from tests.platforms import needs_signals
from tests.served import vector_index

pytestmark = [pytest.mark.slow, needs_signals]


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(folder: Path, port: int, *more: str) -> subprocess.Popen[str]:
    """A process that answers already."""
    command = [sys.executable, "-m", "gradsnap", "serve", str(folder)]
    made = subprocess.Popen(
        [*command, "--port", str(port), *more],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    for _ in range(600):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
            return made
        time.sleep(0.1)
    raise TimeoutError("the server did not start")


@contextlib.contextmanager
def running(folder: Path, port: int, *more: str) -> Iterator[subprocess.Popen[str]]:
    made = started(folder, port, *more)
    try:
        yield made
    finally:
        ended(made)


class Asking(threading.Thread):
    """Asks the same queries over and over; failures of a dead server are no answers."""

    def __init__(self, port: int, queries: torch.Tensor) -> None:
        super().__init__()
        self.port, self.queries = port, queries
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.done = threading.Event()
        self.wrong: list[str] = []

    def run(self) -> None:
        import json

        from gradsnap.serve.client import connect

        there = connect(f"http://127.0.0.1:{self.port}")
        bodies = [json.dumps({"vector": row.tolist()}).encode() for row in self.queries]
        while not self.done.is_set():
            for place, body in enumerate(bodies):
                try:
                    self.answers.append((place, there._ask("POST", "/search", body)))
                except ServerError as error:
                    if error.status:
                        self.wrong.append(str(error))
                    time.sleep(0.02)
        there.close()


def ended(server: subprocess.Popen[str]) -> None:
    """Kills a process as a crash would."""
    server.send_signal(signal.SIGKILL)
    server.wait()
    if server.stdout is not None:
        server.stdout.close()


def appended(folder: Path, seed: int) -> gs.index.Index:
    index = gs.load_index(folder)
    words = {"label": ["new"] * 50, "year": [1999] * 50}
    index.add(clustered(50, seed=seed), metadata=words).save(folder)
    return gs.load_index(folder)


def test_killed_and_written_to_during_load(tmp_path) -> None:
    """Every answer is right for the version it names, and nothing saved is lost."""
    folder, port, queries = tmp_path / "v.index", free_port(), clustered(6, seed=3)
    vector_index(400).save(folder)
    expected = {1: gs.load_index(folder).search(queries, 10)}
    asking = [Asking(port, queries) for _ in range(4)]
    server = started(folder, port)
    for thread in asking:
        thread.start()
    for save in range(2, 8):
        expected[save] = appended(folder, save).search(queries, 10)
        if save in (3, 5):
            ended(server)
            server = started(folder, port)
        time.sleep(1.2)
    for thread in asking:
        thread.done.set()
        thread.join()
    ended(server)
    answers = [pair for thread in asking for pair in thread.answers]
    assert [thread.wrong for thread in asking] == [[]] * 4
    assert len(answers) > 100
    assert {1, 7} <= {answer["version"] for _, answer in answers}
    for place, answer in answers:
        want, rows = expected[answer["version"]], answer["results"]
        assert [one["id"] for one in rows] == want.ids[place].tolist()
        assert [one["distance"] for one in rows] == want.distances[place].tolist()
    assert len(gs.load_index(folder, verify=True)) == 700


def test_sigterm_ends_after_the_running_requests(tmp_path) -> None:
    folder, port = tmp_path / "v.index", free_port()
    vector_index(400).save(folder)
    with running(folder, port) as server:
        asking = [Asking(port, clustered(3, seed=4)) for _ in range(3)]
        for thread in asking:
            thread.start()
        time.sleep(1)
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        for thread in asking:
            thread.done.set()
            thread.join()
        assert [thread.wrong for thread in asking] == [[]] * 3


def test_a_taken_port_is_a_sentence(tmp_path) -> None:
    folder, port = tmp_path / "v.index", free_port()
    vector_index(50).save(folder)
    with running(folder, port):
        command = [sys.executable, "-m", "gradsnap", "serve", str(folder)]
        said = subprocess.run(
            [*command, "--port", str(port)], capture_output=True, text=True, check=False
        )
        assert said.returncode == 1
        assert "--port" in said.stderr
        assert "Traceback" not in said.stderr


def test_other_machines_are_refused_from_the_command_line(tmp_path) -> None:
    command = [sys.executable, "-m", "gradsnap", "serve", str(tmp_path)]
    said = subprocess.run(
        [*command, "--host", "0.0.0.0"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 1
    assert "--token-file" in said.stderr

"""Ray: real processes, killed while they work; nothing is lost and nothing is twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradsnap.errors import InputError
from gradsnap.scale.lance_index import index_table
from gradsnap.scale.ray_cluster import RayWorkers, workers_on
from gradsnap.scale.shard_folders import build_shards
from gradsnap.scale.sharded import Ask, opened_shards
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import search_by_index
from gradsnap.scale.workers import ThisProcess, Workers
from tests.conftest import clustered
from tests.ray_processes import actors
from tests.scale_parts import (
    encoded,
    rows_of,
    vector_coder,
    write_model,
    write_photos,
    write_vectors,
)

pytest.importorskip("ray", reason="the extra ray is not installed")
pytest.importorskip("lance")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own, of sockets and forks
]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with workers_on("ray", 2) as made:
        yield made


def test_a_cluster_of_ours_is_reached_from_this_machine_alone() -> None:
    script = (
        "from gradsnap.scale.ray_cluster import joined_ray\n"
        "with joined_ray('ray', 1) as ray:\n"
        "    print(*{node['NodeManagerAddress'] for node in ray.nodes()})"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.stdout.split() == ["127.0.0.1"], done.stderr


def test_ray_writes_the_very_same_table(tmp_path: Path, workers: Workers) -> None:
    write_photos(tmp_path / "photos", 90)
    (tmp_path / "photos" / "a" / "9.jpg").write_bytes(b"no image")
    model = write_model(tmp_path / "model")
    plain, _ = encoded(model, tmp_path / "photos", tmp_path / "p.lance", rows=8)
    table, done = encoded(
        model, tmp_path / "photos", tmp_path / "r.lance", workers, rows=8
    )
    assert rows_of(table) == rows_of(plain)
    assert (done.rows, done.bad) == (89, 1)


class Slow:
    """Takes a moment for each job, and says which process does it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def __call__(self, job: int) -> int:
        (self.folder / f"{os.getpid()}.pid").touch()
        time.sleep(0.2)
        return job * job


def test_a_killed_actor_does_its_job_again(tmp_path: Path, workers: Workers) -> None:
    killed: list[int] = []

    def kill_one() -> None:
        while not (found := list(tmp_path.glob("*.pid"))):
            time.sleep(0.05)
        killed.append(int(found[0].stem))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_one)
    thread.start()
    found = list(workers.run(Slow, str(tmp_path), range(12)))
    thread.join()
    assert found == [number * number for number in range(12)]
    assert len(list(tmp_path.glob("*.pid"))) == 3  # two, and the one after the killed


def test_errors_of_workers_are_ours(tmp_path: Path, workers: Workers) -> None:
    coder, _ = vector_coder(tmp_path)
    np.save(tmp_path / "wide.npy", np.ones((5, 9), np.float32))
    with pytest.raises(InputError, match="length 9 do not fit a model of dim 8"):
        encoded(coder, tmp_path / "wide.npy", tmp_path / "t.lance", workers)


def test_indexing_on_ray_equals_one_process(tmp_path: Path, workers: Workers) -> None:
    queries = clustered(6, seed=2)
    coder, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 400)
    answers = []
    shards = []
    for name, who in (("one", ThisProcess()), ("ray", workers)):
        table, _ = encoded(coder, path, tmp_path / f"{name}.lance", rows=100)
        build_shards(table, tmp_path / f"{name}.index", 2, who)
        index_table(table, who)
        answers.append(search_by_index(CodeTable(table.address), queries, 10))
        with opened_shards(tmp_path / f"{name}.index") as opened:
            shards.append(opened.search(Ask(queries.numpy(), 10)).results)
    assert answers[0] == answers[1]
    assert shards[0] == shards[1]


def test_a_dead_shard_answers_when_it_is_back(tmp_path: Path, workers: Workers) -> None:
    assert isinstance(workers, RayWorkers)
    coder, _ = vector_coder(tmp_path)
    path, _ = write_vectors(tmp_path, 100)
    table, _ = encoded(coder, path, tmp_path / "t.lance", half=False, rows=40)
    build_shards(table, tmp_path / "s", 2, ThisProcess())
    ask = Ask(clustered(3, seed=2).numpy(), 5)
    with opened_shards(tmp_path / "s") as here:
        expected = here.search(ask)
    with opened_shards(tmp_path / "s", "ray") as shards:
        assert shards.search(ask) == expected
        os.kill(actors("ShardSearcher")[0], signal.SIGKILL)
        answer = shards.search(ask, partial=3.0)  # it takes longer to come back
        assert len(answer.missing) <= 1
        assert bool(answer.missing) == (answer.results != expected.results)
        assert shards.search(ask) == expected


DRIVER = """
import sys
from gradsnap.cli.app import app
import gradsnap.scale.encoding as encoding
encoding.COMMIT_SECONDS = 0.0
app(sys.argv[1:])
"""


def test_a_killed_driver_can_be_started_again(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 240)
    model = write_model(tmp_path / "model")
    plain, _ = encoded(model, tmp_path / "photos", tmp_path / "p.lance", rows=4)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    out = tmp_path / "r.lance"
    command: list[Any] = [sys.executable, script, "encode", model, tmp_path / "photos"]
    command += ["--shard-rows", "4", "--keep-half", "--out", out, "--on", "ray"]
    command += ["--workers", "2"]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    while process.poll() is None and _rows(out) == 0:
        time.sleep(0.02)
    process.kill()
    process.wait()
    before = _rows(out)
    assert 0 < before < 240
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert rows_of(CodeTable(out)) == rows_of(plain)


def _rows(path: Path) -> int:
    try:
        return len(CodeTable(path))
    except InputError:
        return 0


def test_figures_are_those_of_one_process(tmp_path: Path, workers: Workers) -> None:
    from gradsnap.evaluation import RankingRules
    from gradsnap.scale.evaluating import Ranked, evaluate_on
    from gradsnap.training.scoring import Labelled, score

    _, coder = vector_coder(tmp_path)
    queries = Labelled(clustered(40, seed=3), torch.arange(40) % 4)
    database = Labelled(clustered(300, seed=4), torch.arange(300) % 4)
    rules = RankingRules(100, "relevant", "zero")
    expected = score(coder, queries, database, rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradsnap.evaluation.distances.BLOCK_ENTRIES", 300 * 7)
        codes = evaluate_on(workers, Ranked(coder, queries, database, rules))
    assert torch.equal(codes.average_precisions, expected.codes.average_precisions)
    assert codes.record() == expected.codes.record()

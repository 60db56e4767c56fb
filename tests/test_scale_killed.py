"""SIGKILL while a table is indexed: of an actor, then of the driver."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradsnap.index import load_index
from gradsnap.scale.lance_index import NAME, index_table
from gradsnap.scale.shard_folders import build_shards
from gradsnap.scale.sharded import Ask, opened_shards
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import search_by_index
from gradsnap.scale.workers import ThisProcess
from tests.commands import said
from tests.conftest import clustered
from tests.ray_processes import actors
from tests.scale_parts import encoded, vector_coder, write_vectors

pytest.importorskip("ray", reason="the extra ray is not installed")
pytest.importorskip("lance")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

QUERIES = clustered(6, seed=2)
ROWS, PARTS = 12_000, 120

DRIVER = """
import sys
from gradsnap.cli.app import app
import gradsnap.scale.lance_index as lance_index
lance_index.PART_ROWS = 100
app(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def encoded_once(tmp_path_factory: Any) -> Path:
    home: Path = tmp_path_factory.mktemp("killed")
    coder, _ = vector_coder(home)
    path, _ = write_vectors(home, ROWS)
    encoded(coder, path, home / "t.lance", rows=ROWS // PARTS)
    (home / "driver.py").write_text(DRIVER)
    return home


def started(home: Path, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, home / "driver.py", "index", *arguments]
    command += ["--on", "ray", "--workers", "2", "--quiet"]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)


def wait_for(sign: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not sign():
        time.sleep(0.005)
    assert process.poll() is None, "it ended before it could be killed"


def finished(process: subprocess.Popen[bytes]) -> None:
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told[-2000:]


def notes(table: Path) -> list[Path]:
    return list((table / "_gradsnap" / "parts").glob("*.json"))


def kill_an_actor_then_the_driver(
    process: subprocess.Popen[bytes], built: Callable[[], int], every: int
) -> None:
    """Both with SIGKILL, while some parts are built and others are not."""
    wait_for(lambda: built() > 0, process)
    os.kill(actors("Holder", process.pid)[0], signal.SIGKILL)
    before = built()
    wait_for(lambda: built() > before + 2, process)  # it goes on
    process.kill()
    process.wait()
    assert before < built() < every


def test_an_index_in_a_table(tmp_path: Path, encoded_once: Path) -> None:
    table, plain = tmp_path / "t.lance", tmp_path / "p.lance"
    for copy in (table, plain):
        shutil.copytree(encoded_once / "t.lance", copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradsnap.scale.lance_index.PART_ROWS", 100)
        index_table(CodeTable(plain), ThisProcess())
    process = started(encoded_once, table)
    kill_an_actor_then_the_driver(process, lambda: len(notes(table)), PARTS)
    finished(started(encoded_once, table))
    _same_index(table, plain)
    assert not notes(table)


def _same_index(table: Path, plain: Path) -> None:
    """Every fragment in one part and every row once; answers are equal."""
    opened = CodeTable(table)
    parts = next(
        one for one in opened.dataset.describe_indices() if one.name == NAME
    ).segments
    covered = [number for part in parts for number in part.fragment_ids]
    assert sorted(covered) == [one.fragment_id for one in _fragments(opened)]
    answers = [search_by_index(CodeTable(one), QUERIES, 50) for one in (table, plain)]
    assert answers[0] == answers[1]


def _fragments(table: CodeTable) -> list[Any]:
    return list(table.dataset.get_fragments())


def test_shards(tmp_path: Path, encoded_once: Path) -> None:
    table, kind = encoded_once / "t.lance", "inverted"
    build_shards(CodeTable(table), tmp_path / "plain", PARTS, ThisProcess(), kind)
    out = tmp_path / "shards"
    command = (table, "--shards", PARTS, "--kind", kind, "--out", out)
    process = started(encoded_once, *command)
    kill_an_actor_then_the_driver(
        process, lambda: len(list(out.glob("shard-*"))), PARTS
    )
    assert not (out / "shards.json").exists()
    said("index", *command, "--quiet")  # by this process: who goes on is the same
    ask = Ask(QUERIES.numpy(), 50, None, 8)
    found = []
    for folder in (out, tmp_path / "plain"):
        with opened_shards(folder) as shards:
            found.append(shards.search(ask))
    assert found[0] == found[1]
    names = sorted(one.name for one in out.iterdir())
    assert names == sorted(one.name for one in (tmp_path / "plain").iterdir())
    assert sum(len(load_index(one)) for one in out.glob("shard-*")) == ROWS

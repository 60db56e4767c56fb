"""Builds that were killed, and sources that are given twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradsnap as gs
from gradsnap.cli.ending import Ended
from gradsnap.collection import adding
from gradsnap.collection.sources import unfinished
from tests.commands import said
from tests.conftest import clustered, fitted

ROWS = 300


@pytest.fixture
def place(tmp_path: Path) -> Path:
    fitted("pq").save(tmp_path / "coder.safetensors")
    np.save(tmp_path / "rows.npy", clustered(ROWS, seed=1).numpy())
    return tmp_path


def build(place: Path, *more: str) -> str:
    words = (place / "coder.safetensors", place / "rows.npy", "--out", place / "i")
    return said("index", *words, *more)


def test_the_same_vectors_are_added_once(place: Path) -> None:
    build(place)
    answer = said("index", place / "rows.npy", "--add", "--out", place / "i")
    assert "known already" in answer
    assert len(gs.load_index(place / "i")) == ROWS
    np.save(place / "rows.npy", clustered(ROWS, seed=2).numpy())  # others, same name
    said("index", place / "rows.npy", "--add", "--out", place / "i")
    assert len(gs.load_index(place / "i")) == 2 * ROWS


def stopped(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that dies after its second save."""
    saves = []
    save = gs.ExhaustiveIndex.save

    def dying(index: gs.ExhaustiveIndex, path: Path) -> None:
        save(index, path)
        saves.append(len(index))
        if len(saves) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(adding, "SAVE_EVERY", 1)
        patch.setattr("gradsnap.inference.embedding.BLOCK", 100)
        patch.setattr(gs.ExhaustiveIndex, "save", dying)
        with pytest.raises(Ended, match="interrupted"):
            build(place)


def test_a_stopped_build_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(place)
    whole = gs.load_index(place / "i").search(clustered(5), 9)
    (place / "i").rename(place / "whole")
    stopped(place, monkeypatch)
    half = gs.load_index(place / "i")
    assert (len(half), unfinished(half)) != (ROWS, None)
    assert "unfinished" in said("info", place / "i")
    build(place)
    found = gs.load_index(place / "i")
    assert (len(found), unfinished(found)) == (ROWS, None)
    again = found.search(clustered(5), 9)
    assert again.ids.tolist() == whole.ids.tolist()
    assert "exists already" in build(place)


def test_a_stopped_build_is_not_mixed_with_another(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(place, monkeypatch)
    np.save(place / "rows.npy", clustered(ROWS, seed=3).numpy())
    assert "another build that was stopped" in build(place)


def test_adding_goes_on_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(place, monkeypatch)
    said("index", place / "rows.npy", "--add", "--out", place / "i")
    assert len(gs.load_index(place / "i")) == ROWS


LARGE = """
import sys
from gradsnap.collection import adding
from gradsnap.cli.app import main
from gradsnap.inference import embedding
adding.SAVE_EVERY = embedding.BLOCK = 20_000
sys.argv = ["gradsnap", "index", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
def test_a_killed_build_of_many_rows(tmp_path: Path) -> None:
    """SIGKILL after the first save, then the same command: every row once."""
    rows = 400_000
    fitted("pq").save(tmp_path / "coder.safetensors")
    np.save(tmp_path / "rows.npy", clustered(rows, seed=1).numpy())
    names = ("coder.safetensors", "rows.npy")
    words = [*(str(tmp_path / name) for name in names), "--out", str(tmp_path / "i")]
    command = [sys.executable, "-c", LARGE, *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment)
    while not (tmp_path / "i" / "manifest.json").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(gs.load_index(tmp_path / "i")) < rows
    subprocess.run(command, env=environment, check=True)
    found = gs.load_index(tmp_path / "i", verify=True)
    assert list(found.select()) == list(range(rows))

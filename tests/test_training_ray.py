"""``train --on ray``: processes of a cluster train as torchrun's do; one is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gradsnap.training import to_toml
from tests.commands import said
from tests.ray_processes import actors
from tests.test_training_processes import OVERRIDES
from tests.training_runs import checkpoint, clusters, config_for


def test_workers_are_for_ray(tmp_path: Path) -> None:
    command = ("train", "digits", "--out", tmp_path / "m", "--workers", 2)
    assert "--workers is for --on ray" in said(*command)
    assert "--on cannot be 'spark'" in said(*command, "--on", "spark")


@pytest.mark.slow
def test_a_killed_process_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    overrides = (*OVERRIDES, "run.steps=400", "run.checkpoint_every=10")
    config = config_for(clusters(tmp_path / "vectors.npz"), *overrides)
    (tmp_path / "run.toml").write_text(to_toml(config))
    for name in ("live", "die"):
        process = started(tmp_path, name)
        if name == "die":
            kill_one(process, tmp_path / name)
        _, told = process.communicate(timeout=600)
        assert process.returncode == 0, told[-2000:]
    one, two = checkpoint(tmp_path / "live"), checkpoint(tmp_path / "die")
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.equal(two[name], value), name


def started(folder: Path, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gradsnap", "train"]
    command += ["--config", str(folder / "run.toml"), "--out", str(folder / name)]
    command += ["--on", "ray", "--workers", "3", "--quiet"]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def kill_one(process: subprocess.Popen[bytes], out: Path) -> None:
    last = out / "checkpoints" / "last.safetensors"
    while process.poll() is None and not last.exists():
        time.sleep(0.01)
    assert process.poll() is None, "it ended before it could be killed"
    os.kill(actors("Trainer", process.pid)[-1], signal.SIGKILL)

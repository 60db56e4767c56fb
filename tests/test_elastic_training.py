"""Torchrun, one process killed: all are started again and go on from the checkpoint.

With four processes two things were wrong that two could not show: the restarted ones
read addresses of the dead in the store, and sums of gradients depended on their layout.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gradsnap.training import to_toml
from tests.test_training_processes import OVERRIDES
from tests.training_runs import checkpoint, clusters, config_for

SCRIPT = """
import os, signal, sys
from pathlib import Path
from gradsnap.training import make_config, read_toml, run_training
from gradsnap.training.watch import TrainingWatch

def dying(self, learner, embeddings, loss, after=TrainingWatch.after_step):
    after(self, learner, embeddings, loss)
    mark = Path(sys.argv[2] + ".died")
    wanted = learner.step == 8 and self.processes.rank == self.processes.world - 1
    if sys.argv[3] == "die" and wanted and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

TrainingWatch.after_step = dying
run_training(make_config(read_toml(sys.argv[1])), Path(sys.argv[2]))
"""


def torchrun(processes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--nproc-per-node", str(processes), "--max-restarts", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_a_killed_process_changes_nothing(tmp_path: Path, processes: int) -> None:
    config = config_for(clusters(tmp_path / "vectors.npz"), *OVERRIDES)
    (tmp_path / "run.toml").write_text(to_toml(config))
    (tmp_path / "script.py").write_text(SCRIPT)
    for name in ("live", "die"):
        paths = (tmp_path / "script.py", tmp_path / "run.toml", tmp_path / name)
        done = torchrun(processes, *map(str, paths), name)
        assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "die.died").exists()
    one, two = checkpoint(tmp_path / "live"), checkpoint(tmp_path / "die")
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.equal(two[name], value), name

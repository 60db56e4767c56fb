"""Two processes by torchrun: equal to one with the same global batch."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from gradsnap.training import run_training, to_toml
from gradsnap.training.batch_norm import with_global_batch_norm
from tests.training_runs import checkpoint, clusters, config_for

OVERRIDES = (
    "run.steps=12",
    "run.batch_size=25",  # uneven shares
    "optimizer.name=sgd",
    "optimizer.rate=0.02",
    'network.options={hidden = [8], normalization = "standard"}',
)


def torchrun(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    # a free port each time, so that tests may run side by side
    launcher += [
        "--nproc-per-node",
        "2",
        "--master-port",
        "0",
        "--rdzv-backend",
        "c10d",
    ]
    launcher += ["--rdzv-endpoint", "localhost:0"]
    return subprocess.run(
        [*launcher, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("all_fits")
@pytest.mark.parametrize("kind", ["pq", "opq", "rvq"])  # cq's search amplifies rounding
def test_two_processes_equal_one(tmp_path: Path, kind: str) -> None:
    config = config_for(
        clusters(tmp_path / "vectors.npz"), *OVERRIDES, f"coder.kind={kind}"
    )
    run_training(config, tmp_path / "one")
    (tmp_path / "run.toml").write_text(to_toml(config))
    done = torchrun(
        *("-m", "gradsnap", "train", "--config", str(tmp_path / "run.toml")),
        *("--out", str(tmp_path / "two")),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=2e-3, atol=2e-4, msg=name)


RANKS_EQUAL = """
import sys, torch
import torch.distributed as dist
from pathlib import Path
from gradsnap.training.watch import TrainingWatch
from gradsnap.training import make_config, read_toml, run_training

def compared(self, learner, embeddings, loss, after=TrainingWatch.after_step):
    after(self, learner, embeddings, loss)
    for part in (learner.method.coder, learner.network):
        for name, value in part.state_dict().items():
            first = value.clone()
            dist.broadcast(first, src=0)
            assert torch.equal(first, value), (learner.step, name)
    if sys.argv[3] == "die" and learner.step == 6 and self.processes.rank == 1:
        sys.exit(7)

TrainingWatch.after_step = compared
run_training(make_config(read_toml(sys.argv[1])), Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pq", "aq"])
def test_ranks_are_equal_to_the_bit_after_every_step(tmp_path: Path, kind: str) -> None:
    source = clusters(tmp_path / "vectors.npz")
    config = config_for(source, *OVERRIDES, f"coder.kind={kind}")
    (tmp_path / "run.toml").write_text(to_toml(config))
    (tmp_path / "script.py").write_text(RANKS_EQUAL)
    paths = (tmp_path / "script.py", tmp_path / "run.toml", tmp_path / "out")
    done = torchrun(*map(str, paths), "live")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_a_dying_rank_ends_the_job(tmp_path: Path) -> None:
    config = config_for(clusters(tmp_path / "vectors.npz"), *OVERRIDES)
    (tmp_path / "run.toml").write_text(to_toml(config))
    (tmp_path / "script.py").write_text(RANKS_EQUAL)
    started = time.monotonic()
    paths = (tmp_path / "script.py", tmp_path / "run.toml", tmp_path / "out")
    done = torchrun(*map(str, paths), "die")
    assert done.returncode != 0
    assert time.monotonic() - started < 200


def test_converted_norms_keep_names_and_evaluate_alike() -> None:
    plain = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    plain(x)
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    expected = plain.eval()(x)
    converted = with_global_batch_norm(plain)
    assert converted.state_dict().keys() == before.keys()
    assert torch.equal(converted.eval()(x), expected)

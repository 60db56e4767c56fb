"""Training on shards: nobody holds all names, and the model is that of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gradsnap.errors import InputError
from gradsnap.training import run_training, to_toml
from gradsnap.training.config import TrainingConfig
from tests.commands import said
from tests.shard_parts import ITEMS, KINDS, SHARDS, write_tars, write_vector_shards
from tests.training_runs import checkpoint, config_for

OVERRIDES = (
    "run.steps=12",
    "run.batch_size=25",  # uneven shares
    "optimizer.name=sgd",
    "optimizer.rate=0.02",
    'network.options={hidden = [8], normalization = "standard"}',
)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_trains(tmp_path: Path, kind: str) -> None:
    config = config_for(KINDS[kind](tmp_path), "run.steps=4", "data.sharded=true")
    model = run_training(config, tmp_path / "model")
    assert model is not None
    assert model.card["items"] == SHARDS * ITEMS
    assert model.card["protocol"]["name"] == "names"
    assert 0 < model.card["figures"]["code_map"] <= 1


def test_evaluate_says_what_the_card_says(tmp_path: Path) -> None:
    source, out = write_vector_shards(tmp_path), tmp_path / "model"
    model = run_training(config_for(source, "run.steps=4"), out)
    assert model is not None
    told = json.loads(said("evaluate", out, "--json"))
    assert told["MAP of model codes"] == pytest.approx(
        model.card["figures"]["code_map"]
    )
    for name in ("split_hashes", "queries", "training", "database"):
        assert told["card"][name] == model.card["card"][name]


def test_a_sample_is_searched_and_fitted_to(tmp_path: Path) -> None:
    options = "data.protocol_options={most_searched = 40, most_queries = 9}"
    config = config_for(write_vector_shards(tmp_path), "run.steps=4", options)
    model = run_training(config, tmp_path / "model")
    assert model is not None
    counts = [model.card["card"][name] for name in ("queries", "database", "training")]
    assert counts[:2] == [9, 40]
    assert counts[2] > 40


def test_a_frozen_trunk_on_shards(tmp_path: Path) -> None:
    overrides = ("run.steps=4", "network.name=small", "network.trainable_blocks=0")
    model = run_training(
        config_for(write_tars(tmp_path), *overrides, "data.side=8"), tmp_path / "model"
    )
    assert model is not None
    [kept] = (tmp_path / "model" / "cache").glob("trunk-*.npy")
    assert kept.stat().st_size


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("data.pairs=x.csv", "pairs or triplets name items of all of them"),
        ("data.ignore_labels=true", "needs labels of two classes or more"),
        ("data.protocol=fraction", "is divided by 'names'"),
        ("data.protocol_options={seen = 1}", "unexpected keyword argument 'seen'"),
    ],
)
def test_what_shards_cannot_do_is_one_sentence(
    tmp_path: Path, setting: str, sentence: str
) -> None:
    source = write_tars(tmp_path)
    told = said("train", source, "--out", tmp_path / "model", setting)
    assert sentence in told.replace("\n", " ")
    assert "Traceback" not in told


def test_lance_is_not_read_by_forked_processes(tmp_path: Path) -> None:
    config = config_for(KINDS["lance"](tmp_path), "data.workers=1")
    with pytest.raises(InputError, match=r"cannot be read by data\.workers"):
        run_training(config, tmp_path / "model")


def test_drawn_triplets_are_refused(tmp_path: Path) -> None:
    config = config_for(
        write_tars(tmp_path), "loss.name=triplet", "loss.triplets=importance"
    )
    with pytest.raises(InputError, match=r"loss\.triplets=importance draws from all"):
        run_training(config, tmp_path / "model")


SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from gradsnap.training import make_config, read_toml, run_training
from gradsnap.training.watch import TrainingWatch

def watched(self, learner, embeddings, loss, after=TrainingWatch.after_step):
    after(self, learner, embeddings, loss)
    out, rank = sys.argv[2], self.processes.rank
    names = list(self.feed.dataset.names)
    Path(f"{out}.names.{rank}.json").write_text(json.dumps(names))
    mark = Path(out + ".died")
    if sys.argv[3] == "die" and learner.step == 8 and rank == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[3] == "stop" and learner.step == 8:
        os._exit(1)

TrainingWatch.after_step = watched
run_training(make_config(read_toml(sys.argv[1])), Path(sys.argv[2]))
"""


def torchrun(
    folder: Path, config: TrainingConfig, world: int, name: str, how: str = "live"
) -> subprocess.CompletedProcess[str]:
    """Trains over processes into a folder, which is named in the same folder."""
    (folder / "run.toml").write_text(to_toml(config))
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--nproc-per-node", str(world), "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "localhost:0"]
    command += ["--max-restarts", "2" if how == "die" else "0"]
    paths = [str(folder / file) for file in ("script.py", "run.toml", name)]
    return subprocess.run(
        [*command, *paths, how],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )


def assert_close(one: Path, two: Path) -> None:
    first, second = checkpoint(one), checkpoint(two)
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=2e-3, atol=2e-4, msg=name)
    cards = [json.loads((path / "card.json").read_text()) for path in (one, two)]
    assert cards[0]["items"] == cards[1]["items"]
    assert cards[0]["card"]["split_hashes"] == cards[1]["card"]["split_hashes"]
    for name, figure in cards[0]["figures"].items():
        assert cards[1]["figures"][name] == pytest.approx(figure, abs=5e-3), name


@pytest.mark.slow
@pytest.mark.usefixtures("all_fits")
def test_several_processes_equal_one_and_none_has_all_names(tmp_path: Path) -> None:
    config = config_for(write_vector_shards(tmp_path), *OVERRIDES)
    run_training(config, tmp_path / "1")
    for world in (2, 4):
        done = torchrun(tmp_path, config, world, str(world))
        assert done.returncode == 0, done.stderr[-2000:]
        assert_close(tmp_path / "1", tmp_path / str(world))
        names = [
            json.loads((tmp_path / f"{world}.names.{rank}.json").read_text())
            for rank in range(world)
        ]
        assert max(map(len, names)) < SHARDS * ITEMS
        every = [name for part in names for name in part]
        assert len(set(every)) == len(every) == SHARDS * ITEMS


@pytest.mark.slow
def test_a_killed_process_changes_nothing(tmp_path: Path) -> None:
    config = config_for(write_vector_shards(tmp_path), *OVERRIDES)
    for name in ("live", "die"):
        done = torchrun(tmp_path, config, 2, name, name)
        assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "die.died").exists()
    one, two = checkpoint(tmp_path / "live"), checkpoint(tmp_path / "die")
    assert all(torch.equal(two[name], value) for name, value in one.items())


@pytest.mark.slow
@pytest.mark.usefixtures("all_fits")
def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    config = config_for(write_vector_shards(tmp_path), *OVERRIDES)
    run_training(config, tmp_path / "whole")
    assert torchrun(tmp_path, config, 2, "run", "stop").returncode != 0
    done = torchrun(tmp_path, config, 3, "run")
    assert done.returncode == 0, done.stderr[-2000:]
    assert_close(tmp_path / "whole", tmp_path / "run")


@pytest.mark.slow
def test_classes_that_one_process_has_none_of(tmp_path: Path) -> None:
    """Each folder is a class, so that no two processes share one."""
    source = KINDS["folders"](tmp_path)
    overrides = ("data.sharded=true", "run.items_per_class=3", "run.batch_size=6")
    config = config_for(source, *overrides, "run.monitor_every=1", "data.side=8")
    done = torchrun(tmp_path, config, 3, "balanced")
    assert done.returncode == 0, done.stderr[-2000:]
    card = json.loads((tmp_path / "balanced" / "card.json").read_text())
    assert len(card["classes"]) == SHARDS


@pytest.mark.slow
def test_several_processes_keep_outputs_of_a_frozen_trunk(tmp_path: Path) -> None:
    overrides = ("run.steps=4", "network.name=small", "network.trainable_blocks=0")
    config = config_for(write_tars(tmp_path), *overrides, "data.side=8")
    done = torchrun(tmp_path, config, 2, "model")
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(list((tmp_path / "model" / "cache").glob("trunk-*.npy"))) == 2


@pytest.mark.slow
def test_a_bad_shard_ends_the_job_with_a_sentence(tmp_path: Path) -> None:
    source = write_tars(tmp_path)
    (source / "shard-00005.tar").write_bytes(b"no tar" * 1000)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    done = subprocess.run(
        [*command, *("-m", "gradsnap", "train", source, "--out", tmp_path / "model")],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode != 0
    assert "shard-00005.tar is truncated or no tar" in done.stderr
    assert "gradsnap/data/shards" not in done.stderr  # no traceback of ours

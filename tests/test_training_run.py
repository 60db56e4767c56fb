"""Whole runs: they learn, resume to the bit, and leave a model folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradsnap as gs
from gradsnap.coders.quantizers import QUANTIZERS
from gradsnap.data import open_dataset
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import read_tensors
from gradsnap.layers import LAYERS
from gradsnap.losses import LOSSES
from gradsnap.networks import Network
from gradsnap.training import TrainingConfig, run_training, to_toml
from gradsnap.training.former import read_config
from gradsnap.training.learner import new_network
from gradsnap.triplets import TRIPLETS
from tests.platforms import needs_signals
from tests.training_runs import (
    assert_equal_tensors,
    checkpoint,
    clusters,
    config_for,
    stop_after,
)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return clusters(tmp_path / "vectors.npz")


def records(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()
    ]


def test_the_loss_falls_and_codes_rank(vectors: Path, tmp_path: Path) -> None:
    config = config_for(
        vectors,
        "run.steps=120",
        "optimizer.rate=0.01",
        "loss.name=classification",
        "loss.mixture=0.0",
    )
    model = run_training(config, tmp_path / "model")
    assert model is not None
    log = [one for one in records(tmp_path / "model") if "loss" in one]
    early = sum(one["loss"] for one in log[:5])
    late = sum(one["loss"] for one in log[-5:])
    assert late < 0.7 * early
    assert model.card["figures"]["code_map"] > 0.8


def test_the_model_folder_opens_again(vectors: Path, tmp_path: Path) -> None:
    model = run_training(config_for(vectors), tmp_path / "model")
    assert model is not None
    opened = gs.load(tmp_path / "model")
    dataset = open_dataset(vectors)
    assert torch.equal(opened.embed(dataset), model.embed(dataset))
    assert torch.equal(opened.encode(dataset), model.encode(dataset))
    assert opened.spec == model.spec
    assert opened.card == model.card


def test_a_model_searches_its_own_index(vectors: Path, tmp_path: Path) -> None:
    model = run_training(config_for(vectors), tmp_path / "model")
    assert model is not None
    dataset = open_dataset(vectors)
    index = gs.ExhaustiveIndex(model.coder).add(model.embed(dataset))
    found = model.search(index, dataset, k=3)
    expected = index.search(model.embed(dataset), 3)
    assert torch.equal(found.ids, expected.ids)
    other = gs.ProductQuantizer(8, 2, 16).fit(model.embed(dataset))
    foreign = gs.ExhaustiveIndex(other).add(model.embed(dataset))
    with pytest.raises(InputError, match="other codebooks"):
        model.search(foreign, dataset, k=3)


def test_the_log_has_every_monitor(vectors: Path, tmp_path: Path) -> None:
    run_training(config_for(vectors, "layer.name=codes"), tmp_path / "model")
    seen = set().union(*(one.keys() for one in records(tmp_path / "model")))
    assert seen >= {
        "step",
        "seconds",
        "loss",
        "rate",
        "norm",
        "relative_error",
        "conformity",
        "conformity_histogram",
        "accepted",
        "active",
        "perplexity",
        "dead",
        "strength",
        "neighbors",
        "float_map",
        "code_map",
    }


@pytest.mark.parametrize("stop", [1, 4, 5, 11, 15])
def test_resuming_equals_not_stopping(vectors, tmp_path, monkeypatch, stop) -> None:
    config = config_for(vectors, "optimizer.name=adamw")
    run_training(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            run_training(config, tmp_path / "parts")
    run_training(config, tmp_path / "parts")
    for name in ("last", "best"):
        one, other = (checkpoint(tmp_path / f, name) for f in ("whole", "parts"))
        assert_equal_tensors(one, other)
    steps = [[one["step"] for one in records(tmp_path / f)] for f in ("whole", "parts")]
    assert steps[0] == steps[1]


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.name=sgd",
        "loss.name=classification",
        "loss.triplets=importance",
        "network.options={hidden = [8], dropout = 0.5}",
        "run.items_per_class=6",
        "coder.kind=opq",
        pytest.param("coder.kind=cq", marks=pytest.mark.slow),
    ],
)
def test_resuming_equals_for_what_has_a_state(
    vectors, tmp_path, monkeypatch, override
) -> None:
    config = config_for(vectors, override)
    run_training(config, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 10)
        with pytest.raises(KeyboardInterrupt):
            run_training(config, tmp_path / "parts")
    run_training(config, tmp_path / "parts")
    assert_equal_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, marks=[pytest.mark.slow] if one in ("aq", "cq") else [])
        for one in QUANTIZERS
    ],
)
def test_every_quantizer_trains(vectors, tmp_path, kind) -> None:
    model = run_training(config_for(vectors, f"coder.kind={kind}"), tmp_path / "m")
    assert model is not None
    assert model.card["figures"]["code_map"] > 0.3


def assert_moved_and_ranks(config: TrainingConfig, out: Path) -> None:
    """The run changed every weight, stayed finite, and ranks above chance, .25."""
    model = run_training(config, out)
    assert model is not None
    settled = read_config(out)
    first = new_network(settled.network, settled.run.seed)
    for before, after in zip(
        first.parameters(), model.network.parameters(), strict=True
    ):
        assert after.isfinite().all()
        assert not torch.equal(before, after)
    assert all(np.isfinite(one["loss"]) for one in records(out) if "loss" in one)
    assert model.card["figures"]["code_map"] > 0.35


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_trains(vectors, tmp_path, layer) -> None:
    config = config_for(vectors, f"layer.name={layer}")
    assert_moved_and_ranks(config, tmp_path / "m")


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains(vectors, tmp_path, loss) -> None:
    assert_moved_and_ranks(config_for(vectors, f"loss.name={loss}"), tmp_path / "m")


@pytest.mark.parametrize("triplets", TRIPLETS)
def test_every_choice_of_triplets_trains(vectors, tmp_path, triplets) -> None:
    config = config_for(vectors, f"loss.triplets={triplets}")
    assert_moved_and_ranks(config, tmp_path / "m")


def test_images_train_and_are_augmented(tmp_path: Path) -> None:
    config = config_for(
        "digits",
        "data.augment=projective,crop",
        "run.steps=4",
        "data.protocol_options.queries=0.02",
        "coder.refit=none",
        "layer.warmup=1",
    )
    model = run_training(config, tmp_path / "model")
    assert model is not None
    assert model.coder.fitted


def test_a_frozen_trunk_is_computed_once(vectors, tmp_path) -> None:
    overrides = (
        "network.options.hidden=[8]",
        "network.trainable_blocks=0",
        f"data.cache={tmp_path / 'cache'}",
    )
    config = config_for(vectors, *overrides)
    kept = run_training(config, tmp_path / "kept")
    assert kept is not None
    (file,) = (tmp_path / "cache").iterdir()
    written = file.stat().st_mtime_ns
    other = run_training(config, tmp_path / "again")
    assert other is not None
    fresh, again = kept.network, other.network
    assert isinstance(fresh, Network)
    assert isinstance(again, Network)
    assert file.stat().st_mtime_ns == written
    assert_equal_tensors(fresh.feat.state_dict(), again.feat.state_dict())
    # the whole network gives what the cached outputs gave
    dataset = open_dataset(vectors)
    trunk = torch.from_numpy(np.load(file))
    torch.testing.assert_close(kept.embed(dataset), fresh.feat(trunk))


def test_snapping_after_the_warm_up_only(vectors, tmp_path) -> None:
    run_training(
        config_for(vectors, "layer.name=codes", "layer.warmup=0.5"), tmp_path / "m"
    )
    for record in records(tmp_path / "m"):
        assert ("conformity" in record) == (record["step"] > 8) or "loss" not in record


def test_a_run_that_never_snapped_says_so(vectors, tmp_path, caplog) -> None:
    """Easy data: the margin is kept before the warm-up ends; no gradient is left."""
    easy = ["method.name=snapping", "loss.options.margin=0.0"]
    easy += ["layer.warmup=0.5", "optimizer.rate=0.0"]
    rows = open_dataset(vectors)
    labels = rows.labels
    assert labels is not None
    apart = torch.nn.functional.one_hot(labels, 6).float().numpy() * 100
    np.savez(tmp_path / "easy.npz", vectors=apart, labels=labels.numpy())
    model = run_training(config_for(tmp_path / "easy.npz", *easy), tmp_path / "m")
    assert model is not None
    assert model.card["snapped"] is False
    assert "nothing was snapped" in caplog.text
    other = run_training(config_for(vectors, "layer.name=codes"), tmp_path / "n")
    assert other is not None
    assert other.card["snapped"] is True


def test_another_configuration_is_refused(vectors, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            run_training(config_for(vectors), tmp_path / "m")
    with pytest.raises(InputError, match=r"another configuration \(optimizer.rate"):
        run_training(config_for(vectors, "optimizer.rate=0.5"), tmp_path / "m")


def test_a_finished_model_is_not_overwritten(vectors, tmp_path) -> None:
    run_training(config_for(vectors), tmp_path / "m")
    with pytest.raises(InputError, match="holds a model already"):
        run_training(config_for(vectors), tmp_path / "m")


def test_damaged_files_are_refused(vectors, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        stop_after(patch, 7)
        with pytest.raises(KeyboardInterrupt):
            run_training(config_for(vectors), tmp_path / "m")
    last = tmp_path / "m" / "checkpoints" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(FileFormatError, match="truncated"):
        run_training(config_for(vectors), tmp_path / "m")
    with pytest.raises(InputError, match=r"no model folder: weights.safetensors"):
        gs.load(tmp_path / "m")


def test_a_diverging_run_says_what_to_do(vectors, tmp_path) -> None:
    config = config_for(
        vectors,
        "optimizer.name=sgd",
        "optimizer.rate=1e30",
        "layer.warmup=1",
        "run.monitor_every=1",
    )
    with pytest.raises(InputError, match=r"smaller optimizer.rate|NaN"):
        run_training(config, tmp_path / "m")


def test_kept_words_of_the_card(vectors, tmp_path) -> None:
    run_training(config_for(vectors), tmp_path / "m")
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    assert card["data"] == str(vectors)
    assert card["protocol"]["name"] == "fraction"
    assert card["card"]["split_hashes"]
    counts = card["card"]["queries"], card["card"]["database"]
    assert sum(counts) == card["items"] == 120


def killed_at_random(command: list[str], seconds: float) -> bool:
    """Whether the command was still running when it was killed."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return True
    assert process.returncode == 0
    return False


@needs_signals
@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_the_same(vectors, tmp_path) -> None:
    config = config_for(vectors, "run.steps=1500", "run.checkpoint_every=7")
    (tmp_path / "run.toml").write_text(to_toml(config))
    command = [sys.executable, "-m", "gradsnap", "train", "-q"]
    command += ["--config", str(tmp_path / "run.toml"), "--out"]
    started = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    whole = time.monotonic() - started
    kills = 0
    generator = torch.Generator().manual_seed(int(time.time()))
    while kills < 40:
        share = 0.4 + 0.5 * float(torch.rand((), generator=generator))
        if not killed_at_random([*command, str(tmp_path / "killed")], whole * share):
            break
        kills += 1
    assert kills >= 1
    for name in ("last", "best"):
        one, other = (checkpoint(tmp_path / f, name) for f in ("whole", "killed"))
        assert_equal_tensors(one, other)
    one, other = (
        read_tensors(tmp_path / f / "weights.safetensors", "gradsnap-model-1", "")[0]
        for f in ("whole", "killed")
    )
    assert_equal_tensors(one, other)

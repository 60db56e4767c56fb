"""``gradsnap train`` as a user types it: one line, bad input, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from gradsnap.cli.app import app
from tests.commands import said
from tests.platforms import needs_permissions
from tests.training_runs import clusters

RUNNER = CliRunner()
SHORT = ["run.steps=4", "network.dim=8", "run.batch_size=8", "--bits", "8"]
SMALL = ["network.name=small", "data.side=16"]


def train(*arguments: object) -> str:
    return said("train", *arguments)


def image(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cats", "dogs"):
        for number in range(12):
            image(tmp_path / "photos" / name / f"{number}.png", number)
    return tmp_path / "photos"


def test_one_line_on_a_folder(photos: Path, tmp_path: Path) -> None:
    output = train(photos, *SHORT, *SMALL, "--out", tmp_path / "model")
    assert "MAP of codes" in output
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names >= {"config.toml", "weights.safetensors", "card.json", "log.jsonl"}


def test_json(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    card = json.loads(train(source, *SHORT, "--json", "--out", tmp_path / "model"))
    assert card["bits"] == 8


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    assert train(source, *SHORT, "-q", "--out", tmp_path / "model") == ""


def test_quiet_keeps_what_json_asks_for(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    words = (*SHORT, "-q", "--json", "--out", tmp_path / "model")
    assert json.loads(train(source, *words))["bits"] == 8


def test_show_config_is_a_config(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(train("--show-config", "digits", "run.steps=7"))
    assert "steps = 7" in train("--config", file, "--show-config")


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    source = clusters(tmp_path / "v.npz")
    train(source, *SHORT, "--tensorboard", "-q", "--out", tmp_path / "model")
    assert list((tmp_path / "model" / "tensorboard").iterdir())


def test_one_class(tmp_path: Path) -> None:
    for number in range(6):
        image(tmp_path / "photos" / "cats" / f"{number}.png", number)
    said = train(tmp_path / "photos", *SHORT, *SMALL, "--out", tmp_path / "m")
    assert "learning from neighbours needs at least 100 rows, got 6" in said


def test_classes_with_one_image(photos: Path, tmp_path: Path) -> None:
    image(photos / "bird" / "0.png")
    said = train(photos, *SHORT, *SMALL, "--out", tmp_path / "m")
    assert "too small" in said
    assert "1 items" in said


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n half of one"])
def test_bad_images_are_named_or_skipped(photos, tmp_path, content) -> None:
    bad = photos / "dogs" / "bad.png"
    bad.write_bytes(content)
    said = train(photos, *SHORT, *SMALL, "--out", tmp_path / "m")
    assert "bad.png" in said
    options = (*SHORT, *SMALL, "--skip-bad", "--json", "--out", tmp_path / "n")
    assert json.loads(train(photos, *options))["skipped"] == 1


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    said = train(tmp_path / "photos", *SHORT, "--out", tmp_path / "m")
    assert str(tmp_path / "photos") in said


def test_nan_vectors(tmp_path: Path) -> None:
    vectors = np.ones((40, 4), dtype=np.float32)
    vectors[3, 2] = np.nan
    np.savez(tmp_path / "v.npz", vectors=vectors, labels=np.arange(40) % 2)
    said = train(tmp_path / "v.npz", *SHORT, "--out", tmp_path / "m")
    assert "NaN" in said


def test_labels_out_of_range(tmp_path: Path) -> None:
    vectors = np.ones((40, 4), dtype=np.float32)
    np.savez(tmp_path / "v.npz", vectors=vectors, labels=np.arange(40) - 50)
    said = train(tmp_path / "v.npz", *SHORT, "--out", tmp_path / "m")
    assert "label" in said


def test_no_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.ones((40, 4), dtype=np.float32))
    said = train(tmp_path / "v.npy", *SHORT, "--out", tmp_path / "m")
    assert "neighbours needs at least 100 rows, got 40" in said


def test_a_batch_larger_than_the_data(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    said = train(source, "run.batch_size=5000", "--out", tmp_path / "m")
    assert "batch_size 5000 is larger" in said


@needs_permissions
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "cannot make" in train(source, *SHORT, "--out", tmp_path / "locked" / "m")


def test_an_output_that_is_a_file(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    (tmp_path / "file").write_text("mine")
    assert "cannot make" in train(source, *SHORT, "--out", tmp_path / "file" / "m")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["train", "digits"], 1, "--out model", marks=pytest.mark.slow),
        pytest.param(
            ["train", "--out", "m"], 1, "name a data set", marks=pytest.mark.slow
        ),
        (["train", "nowhere/", "--out", "m"], 1, "nowhere"),
        pytest.param(
            *(["train", "a", "b", "--out", "m"], 1, "one data set"),
            marks=pytest.mark.slow,
        ),
        (["train", "digits", "--bits", "many", "--out", "m"], 2, "--bits"),
        (["trian"], 2, "trian"),
    ],
)
def test_exit_codes_without_a_traceback(tmp_path, arguments, code, words) -> None:
    command = [sys.executable, "-m", "gradsnap", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gradsnap.training.run_beside_plain", interrupted)
    result = RUNNER.invoke(app, ["train", "digits", "--out", str(tmp_path / "m")])
    assert result.exit_code == 130
    assert "the same command goes on" in result.output

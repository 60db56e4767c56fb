"""Tiny training runs that tests share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.files import read_tensors
from gradsnap.training import TrainingConfig, make_config, run_training
from gradsnap.training.watch import TrainingWatch

SETTINGS: dict[str, dict[str, Any]] = {
    "data": {"validation": 0.2},
    "network": {"dim": 8},
    "coder": {"bits": 8, "codebook_size": 16},
    "layer": {"warmup": 0.25},
    "run": {
        "steps": 16,
        "batch_size": 24,
        "monitor_every": 2,
        "validate_every": 5,
        "checkpoint_every": 3,
    },
}


def clusters(path: Path, rows: int = 120, dim: int = 6, classes: int = 4) -> Path:
    """A file of labelled vectors around one place a class."""
    generator = torch.Generator().manual_seed(0)
    places = 2 * torch.randn(classes, dim, generator=generator)
    labels = torch.arange(rows) % classes
    vectors = places[labels] + torch.randn(rows, dim, generator=generator)
    np.savez(path, vectors=vectors.numpy(), labels=labels.numpy())
    return path


def config_for(source: Path | str, *overrides: str) -> TrainingConfig:
    """The tiny configuration on some data."""
    tables = SETTINGS | {"data": SETTINGS["data"] | {"source": str(source)}}
    return make_config(tables, overrides)


def checkpoint(folder: Path, name: str = "last") -> dict[str, Tensor]:
    """The tensors of a checkpoint."""
    path = folder / "checkpoints" / f"{name}.safetensors"
    return read_tensors(path, "gradsnap-checkpoint-2", "a checkpoint")[0]


def assert_equal_tensors(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Compares the tensors of two checkpoints, to the bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def stop_after(patch: pytest.MonkeyPatch, steps: int) -> None:
    """Ends a run like a crash, right after a step."""
    after_step = TrainingWatch.after_step

    def stopping(self: Any, learner: Any, embeddings: Tensor, loss: Tensor) -> None:
        after_step(self, learner, embeddings, loss)
        if learner.step == steps:
            raise KeyboardInterrupt

    patch.setattr(TrainingWatch, "after_step", stopping)


def assert_resumes(
    config: TrainingConfig, place: Path, patch: pytest.MonkeyPatch
) -> None:
    """A run stopped after its eighth step ends as that in ``place / "whole"``."""
    with patch.context() as own:
        stop_after(own, 8)
        with pytest.raises(KeyboardInterrupt):
            run_training(config, place / "parts")
    run_training(config, place / "parts")
    assert_equal_tensors(checkpoint(place / "whole"), checkpoint(place / "parts"))

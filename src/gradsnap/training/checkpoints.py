"""Checkpoints: all that the next step depends on, in one file, never a pickle."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import (
    prefixed,
    read_tensors,
    without_prefix,
    write_tensors,
    write_text,
)
from gradsnap.training.config import TrainingConfig
from gradsnap.training.learner import Learner
from gradsnap.training.settings import differing, make_config, to_tables

FORMAT = "gradsnap-checkpoint-2"
EARLIER = "gradsnap-checkpoint-1"


def save_checkpoint(
    learner: Learner, config: TrainingConfig, path: str | os.PathLike[str]
) -> None:
    """Writes the learner beside ``path``, then renames it into place."""
    tensors: dict[str, Tensor] = {}
    for name, part in learner.parts().items():
        tensors |= prefixed(name, part.state_dict())
    tensors |= prefixed("optimizer", _optimizer_tensors(learner.optimizer))
    words = {
        "format": FORMAT,
        "step": str(learner.step),
        "best": repr(learner.best),
        "config": json.dumps(to_tables(config)),
    }
    write_tensors(path, tensors, words)


def load_checkpoint(
    learner: Learner, config: TrainingConfig, path: str | os.PathLike[str]
) -> None:
    """Puts the learner where the one that was saved stood.

    Raises:
        InputError: the checkpoint is of another configuration.
        FileFormatError: the file is truncated, changed or no checkpoint.
    """
    tensors, words = read_tensors(path, (FORMAT, EARLIER), "a checkpoint")
    if words["format"] == EARLIER:
        raise InputError(
            f"{os.fspath(path)} was written by an earlier gradsnap, whose runs cannot "
            "go on: name another folder to start again"
        )
    try:
        saved = make_config(json.loads(words["config"]))
        step, best = int(words["step"]), float(words["best"])
        if not 0 <= step <= saved.run.steps:
            raise ValueError(f"it is of step {step}, in a run of {saved.run.steps}")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise FileFormatError(f"{os.fspath(path)} is damaged: {error}") from error
    others = differing(saved, config)
    if others:
        raise InputError(
            f"{os.fspath(path)} is a checkpoint of another configuration "
            f"({'; '.join(others[:5])}): use those settings, or another folder"
        )
    try:
        for name, part in learner.parts().items():
            part.load_state_dict(without_prefix(name, tensors))
        _load_optimizer(learner.optimizer, without_prefix("optimizer", tensors))
    except (KeyError, RuntimeError, ValueError) as error:
        raise FileFormatError(f"{os.fspath(path)} does not fit: {error}") from error
    learner.step, learner.best = step, best


def truncate_log(path: Path, step: int) -> None:
    """Drops the records of steps after ``step``, which will be taken again."""
    if not path.is_file():
        return
    lines = path.read_text("utf-8", errors="replace").splitlines()
    kept = [line for line in lines if _is_up_to(line, step)]
    write_text(path, "".join(f"{line}\n" for line in kept))


def _is_up_to(line: str, step: int) -> bool:
    try:
        return bool(json.loads(line)["step"] <= step)
    except (ValueError, KeyError, TypeError):  # half a line, from a kill
        return False


def _optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors by ``number.name``; rates come from the schedule."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, values in state.items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }


def _load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = torch.clone(value)
    content = optimizer.state_dict() | {"state": state}
    optimizer.load_state_dict(content)

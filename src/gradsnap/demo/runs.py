"""The trainings: both sides, every learning rate, every seed."""

import contextlib
import itertools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from gradsnap.demo.settings import DemoSettings
from gradsnap.errors import InputError
from gradsnap.inference.model import Model
from gradsnap.progress import track
from gradsnap.training import run_training

SIDES = {"plain": "without snapping", "snapping": "with snapping"}
"""The layer of each side, and what people call it."""

Record = dict[str, Any]


class Trained(NamedTuple):
    """One finished training."""

    model: Model
    records: list[Record]
    """What the run logged, in order of its steps."""

    @property
    def validation_map(self) -> float:
        """MAP of codes on the validation part, of the step that was kept."""
        return float(self.model.card["validation_code_map"] or 0)


@dataclass(frozen=True)
class Side:
    """The network with one layer, at the learning rate that suits it best."""

    layer: str
    rate: float
    runs: list[Trained]
    """One for each seed, all at that rate."""
    validation: dict[float, float]
    """MAP of codes on the validation part, mean over seeds, by learning rate."""

    @property
    def name(self) -> str:
        """What people call it."""
        return SIDES[self.layer]


def train_sides(settings: DemoSettings) -> list[Side]:
    """Trains both sides at every rate and seed, and keeps each side's best rate.

    The choice rests on the validation part, which is cut from the training images;
    the queries are not looked at.
    """
    choices = itertools.product(SIDES, settings.rates, range(settings.seeds))
    found: dict[tuple[str, float], list[Trained]] = {}
    with tempfile.TemporaryDirectory(prefix="gradsnap-demo-") as folder:
        jobs = list(choices)
        for number, (layer, rate, seed) in enumerate(
            track(jobs, f"training {len(jobs)} small networks")
        ):
            run = _trained(settings, layer, rate, seed, Path(folder) / str(number))
            found.setdefault((layer, rate), []).append(run)
    return [
        _best_side(layer, {rate: found[layer, rate] for rate in settings.rates})
        for layer in SIDES
    ]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A single thread in torch: so small a network gains nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _trained(
    settings: DemoSettings, layer: str, rate: float, seed: int, out: Path
) -> Trained:
    model = run_training(settings.config(layer, rate, seed), out)
    if model is None:
        raise InputError("the demo trains in one process: run it without torchrun")
    lines = (out / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return Trained(model, [json.loads(line) for line in lines])


def _best_side(layer: str, runs: dict[float, list[Trained]]) -> Side:
    validation = {
        rate: fmean(run.validation_map for run in found) for rate, found in runs.items()
    }
    best = max(validation, key=lambda rate: validation[rate])
    return Side(layer, best, runs[best], validation)

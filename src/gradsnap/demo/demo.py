"""The demo's trainings: what is tried at the first length, then every length."""

import contextlib
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from gradsnap.demo.measured import Data, Row, Side, Trained
from gradsnap.demo.settings import SIDES, DemoSettings, Trial
from gradsnap.errors import InputError
from gradsnap.progress import track
from gradsnap.training import TrainingConfig, run_training
from gradsnap.training.defaults import settled
from gradsnap.training.scoring import protocol_card, rules_of

Tried = dict[Trial, list[Trained]]
"""A side's runs of every seed, by trial."""


@dataclass(frozen=True)
class Findings:
    """The sides, by their layer, with what they share."""

    settings: DemoSettings
    sides: dict[str, Side]
    images: Tensor
    """The database's, uint8 (n, 1, 8, 8)."""
    query_images: Tensor
    """uint8 (q, 1, 8, 8)."""
    card: dict[str, Any]
    """The protocol, the machine and the command."""
    seconds: float


def findings(settings: DemoSettings) -> Findings:
    """Trains all sides and measures them."""
    started = time.monotonic()
    with _one_thread():
        config, dataset, split, _ = settled(settings.first())
        data = Data(dataset, split, rules_of(config.data.protocol))
        sides = train_sides(settings, data)
    card = protocol_card(config, dataset.name, split, data.rules, settings.bits)
    tried = {side.name: str(side.trial) for side in sides.values()}
    more = {"rules": str(data.rules), "validation": len(split.validation)}
    return Findings(
        settings,
        sides,
        images=dataset.items.batch(split.database),
        query_images=dataset.items.batch(split.queries),
        card=card.record() | more | {"method": "three sides", "options": tried},
        seconds=time.monotonic() - started,
    )


def train_sides(settings: DemoSettings, data: Data) -> dict[str, Side]:
    """Chooses for each side at the first length, and trains that at every length."""
    tried = try_all(settings)
    validation = {layer: _validate(trials, data) for layer, trials in tried.items()}
    chosen = {layer: max(one, key=one.__getitem__) for layer, one in validation.items()}
    others = train_lengths(settings, chosen)
    sides = {}
    for layer, trial in chosen.items():
        runs = {settings.bits: tried[layer][trial]} | others[layer]
        measured = {bits: list(map(data.measure, some)) for bits, some in runs.items()}
        name = SIDES[layer]
        rows = {bits: Row.of(name, trial, some) for bits, some in measured.items()}
        sides[layer] = Side(name, validation[layer], trial, measured, rows)
    return sides


def try_all(settings: DemoSettings) -> dict[str, Tried]:
    """Trains every trial of every side at the first length, once for each seed."""
    tried: dict[str, Tried] = {layer: {} for layer in settings.trials}
    pairs = [(layer, one) for layer, some in settings.trials.items() for one in some]
    jobs = list(itertools.product(pairs, range(settings.seeds)))
    for (layer, trial), seed in track(jobs, f"trying {len(jobs)} small networks"):
        run = _train(settings.config(layer, trial, settings.bits, seed))
        tried[layer].setdefault(trial, []).append(run)
    return tried


def train_lengths(
    settings: DemoSettings, chosen: dict[str, Trial]
) -> dict[str, dict[int, list[Trained]]]:
    """Trains each side's chosen trial at the other lengths, once for each seed."""
    runs: dict[str, dict[int, list[Trained]]] = {layer: {} for layer in chosen}
    others = settings.lengths[1:]
    jobs = list(itertools.product(chosen, others, range(settings.seeds)))
    for layer, bits, seed in track(jobs, f"training {len(jobs)} at other lengths"):
        run = _train(settings.config(layer, chosen[layer], bits, seed))
        runs[layer].setdefault(bits, []).append(run)
    return runs


def _validate(trials: Tried, data: Data) -> dict[Trial, float]:
    """MAP of codes on the validation part by trial, mean over seeds."""
    return {
        trial: fmean(data.validation_map(run.model) for run in runs)
        for trial, runs in trials.items()
    }


def _train(config: TrainingConfig) -> Trained:
    with tempfile.TemporaryDirectory(prefix="gradsnap-demo-") as folder:
        out = Path(folder)
        model = run_training(config, out)
        if model is None:
            raise InputError("the demo trains in one process: run it without torchrun")
        lines = (out / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return Trained(model, [json.loads(line) for line in lines])


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """A single thread in torch: so small a network gains nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Runs of a search: each trained once, and kept as a record."""

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from gradsnap.data import Dataset, Split
from gradsnap.data.fingerprint import items_digest
from gradsnap.errors import InputError
from gradsnap.files import make_folder, write_text
from gradsnap.training.config import TrainingConfig
from gradsnap.training.grid import Trial
from gradsnap.training.run import run_training
from gradsnap.training.settings import make_config, to_tables


@dataclass(frozen=True)
class Result:
    """What one run of a trial gave."""

    trial: Trial
    steps: int
    seed: int
    code_map: float
    """Of the finished coder on the validation part; 0 where the run failed."""
    float_map: float
    fitted_to: str
    """The codebooks' source that validation chose."""
    seconds: float
    training_seconds: float
    """Those of the loop alone; the others do not grow with the steps."""
    error: str = ""

    def seconds_for(self, steps: int) -> float:
        """What the same would take with other steps."""
        grown = self.training_seconds * (steps / self.steps - 1)
        return self.seconds + grown


@dataclass(frozen=True)
class Summary:
    """A trial over its seeds, at its greatest number of steps."""

    trial: Trial
    steps: int
    results: Sequence[Result]

    @property
    def mean(self) -> float:
        """Validation MAP of codes, mean over seeds."""
        return fmean(result.code_map for result in self.results)

    @property
    def error(self) -> float:
        """Its standard error; 0 where there is one seed only."""
        maps = [result.code_map for result in self.results]
        return stdev(maps) / math.sqrt(len(maps)) if len(maps) > 1 else 0.0

    def __str__(self) -> str:
        spread = f" ± {self.error:.3f}" if len(self.results) > 1 else ""
        return f"{self.mean:.3f}{spread}"


@dataclass(frozen=True)
class Trials:
    """Runs trials, each once: what is done is a record in the folder."""

    base: Sequence[str]
    """Settings of every trial, as ``section.key=value``."""
    folder: Path
    data: str
    """Stands for the data and their split; another one makes other records."""
    network_from: str | None = None

    def config(self, trial: Trial, steps: int, seed: int) -> TrainingConfig:
        """The whole configuration of a run; the test queries are not scored."""
        own = (f"run.steps={steps}", f"run.seed={seed}", "run.score_queries=false")
        return make_config({}, [*self.base, *trial.settings, *own])

    def run(self, trial: Trial, steps: int, seed: int) -> Result:
        """The result of a run: read if its record is there, else trained."""
        config = self.config(trial, steps, seed)
        path = self.folder / "trials" / f"{self._key(config)}.json"
        result = read_result(path)
        if result is None:
            result = self._train(config, trial)
            if not result.error:  # what failed is tried again next time
                make_folder(path.parent)
                write_text(path, json.dumps(asdict(result), indent=2) + "\n")
        return result

    def _key(self, config: TrainingConfig) -> str:
        tables = to_tables(config)
        tables["data"].pop("cache", None)  # where it lies does not matter
        text = json.dumps([tables, self.data, self.network_from], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _train(self, config: TrainingConfig, trial: Trial) -> Result:
        started = time.monotonic()
        error, card = "", {}
        log: list[dict[str, Any]] = [{}]
        with tempfile.TemporaryDirectory(prefix="gradsnap-tune-") as name:
            try:
                out = Path(name) / "model"
                model = run_training(config, out, network_from=self.network_from)
                card = {} if model is None else model.card
                log = _log(out / "log.jsonl")
            except InputError as refused:  # a rate too large, say: the others go on
                error = str(refused)
        return Result(
            trial=trial,
            steps=config.run.steps,
            seed=config.run.seed,
            code_map=_finished_map(card),
            float_map=max(_figure(line, card, "float_{}") for line in log),
            fitted_to=card.get("coder_fitted_to", ""),
            seconds=round(time.monotonic() - started, 3),
            training_seconds=log[-1].get("seconds", 0.0),
            error=error,
        )


def data_fingerprint(dataset: Dataset, split: Split) -> str:
    """16 digits for a split of these items."""
    digest = items_digest(dataset)
    digest.update(split.hash.encode())
    return digest.hexdigest()[:16]


def read_result(path: Path) -> Result | None:
    """The result of a record; None where there is none that can be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Result(**values | {"trial": Trial(**values["trial"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _finished_map(card: Mapping[str, Any]) -> float:
    """The figure of the coder as it is in the model, else as it was while training."""
    names = ("validation_code_{}_finished", "validation_code_{}")
    return next(filter(None, (_figure(card, card, name) for name in names)), 0.0)


def _figure(record: Mapping[str, Any], card: Mapping[str, Any], name: str) -> float:
    """What a record says of the figure that the card names; 0 if nothing."""
    return float(record.get(name.format(card.get("figure", "map"))) or 0.0)


def _log(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines] or [{}]

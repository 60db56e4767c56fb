"""Trained codes: with and without snapping, each at its own best learning rate.

The learning rate of each layer is the one whose codes rank best on the validation part
of seed 0, never on the queries; a rate at the edge of the grid is marked. Then every
seed draws its own split, weights and batches. A finished run is kept in the cache and
not run again, so that an interrupted benchmark goes on where it stopped.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.report import Record, Row, say, skipped
from benchmarks.vectors import Setting
from gradsnap.inference.model import load
from gradsnap.training import TrainingConfig, make_config, run_training, to_toml

CACHE = Path.home() / ".cache" / "gradsnap" / "runs"
LAYERS = ("plain", "snapping")
TRIAL = -1
"""In place of a seed: seed 0, scored on the validation part alone."""
TRIAL_SETTINGS = ("run.score_queries=false", "coder.refit=none")

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """Data, network and optimizer; what is compared is the layer.

    Args:
        name: shown in the table.
        needs: files or folders of the data folder.
        settings: of every run; ``{data}`` stands for the data folder.
        bits: lengths of code; rates are chosen at the second, or the only one.
        rates: learning rates to choose from.
        seeds: how many.
        bars: the least code MAP, by bits.
    """

    name: str
    needs: tuple[str, ...]
    settings: Tables
    bits: tuple[int, ...] = (32,)
    rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3)
    seeds: int = 3
    bars: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LearningRow:
    """Means over seeds of one layer at its own best rate."""

    what: str
    bits: int
    layer: str
    rate: float
    rate_at_edge: bool
    seeds: int
    float_map: float
    code_map: float
    spread: float
    relative_error: float
    seconds: float
    bar: float | None

    @property
    def met(self) -> bool | None:
        """Whether the codes rank as well as the bar asks."""
        return None if self.bar is None else self.code_map >= self.bar

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        edge = " (edge)" if self.rate_at_edge else ""
        return {
            "what": self.what,
            "bits": str(self.bits),
            "layer": self.layer,
            "rate": f"{self.rate:g}{edge}",
            "float MAP": f"{self.float_map:.4f}",
            "code MAP": f"{self.code_map:.4f}",
            "spread": f"{self.spread:.4f}",
            "relative error": f"{self.relative_error:.3f}",
            "s a run": f"{self.seconds:.0f}",
            "bar": "" if self.bar is None else f"≥ {self.bar}",
            "met": {True: "yes", False: "no", None: ""}[self.met],
        }

    def record(self) -> Record:
        """What is written to the JSON file."""
        return asdict(self) | {"met": self.met}


def compared(
    task: Task, setting: Setting, layers: tuple[str, ...] = LAYERS
) -> Iterator[LearningRow | Row]:
    """The layers at all bits."""
    missing = [one for one in task.needs if not (_data(setting) / one).exists()]
    if missing:
        yield skipped(task.name, f"no {missing[0]} in the data folder (--data)")
        return
    chosen_at = task.bits[min(1, len(task.bits) - 1)]
    for layer in layers:
        trials = {
            rate: _figures(task, setting, layer, chosen_at, rate, TRIAL)
            for rate in (task.rates[:1] if setting.quick else task.rates)
        }
        best = max(trials, key=lambda rate: trials[rate]["validation_code_map"])
        for bits in task.bits:
            runs = [
                _figures(task, setting, layer, bits, best, seed)
                for seed in range(setting.repeats(task.seeds))
            ]
            yield _row(task, layer, bits, best, runs)


def _row(
    task: Task, layer: str, bits: int, rate: float, runs: list[Record]
) -> LearningRow:
    maps = [run["code_map"] for run in runs]
    return LearningRow(
        what=task.name,
        bits=bits,
        layer=layer,
        rate=rate,
        rate_at_edge=len(task.rates) > 1 and rate in (task.rates[0], task.rates[-1]),
        seeds=len(runs),
        float_map=fmean(run["float_map"] for run in runs),
        code_map=fmean(maps),
        spread=max(maps) - min(maps),
        relative_error=fmean(run["relative_error"] for run in runs),
        seconds=fmean(run["seconds"] for run in runs),
        bar=task.bars.get(bits),
    )


def _figures(
    task: Task,
    setting: Setting,
    layer: str,
    bits: int,
    rate: float,
    seed: int,
) -> Record:
    """The figures of one run, from the cache where it was run before."""
    config = make_config(
        _placed(task.settings, _data(setting)),
        [
            f"layer.name={layer}",
            f"coder.bits={bits}",
            f"optimizer.rate={rate}",
            f"run.seed={max(seed, 0)}",
            f"data.split_seed={max(seed, 0)}",
            *(TRIAL_SETTINGS if seed == TRIAL else ()),
            *(["run.steps=6"] if setting.quick else []),
        ],
    )
    folder = CACHE / f"{task.name.replace(' ', '-')}-{_digest(config)}"
    if not (folder / "weights.safetensors").is_file():
        say(f"{task.name}: {layer}, {bits} bits, rate {rate:g}, seed {seed} …")
        folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        run_training(config, folder)
        (folder / "seconds").write_text(str(time.monotonic() - started))
        shutil.rmtree(folder / "checkpoints")
    card: Record = load(folder).card
    seconds = float((folder / "seconds").read_text())
    validation = {"validation_code_map": card["validation_code_map"] or 0.0}
    return {**card["figures"], **validation, "seconds": seconds}


def _digest(config: TrainingConfig) -> str:
    return hashlib.sha256(to_toml(config).encode()).hexdigest()[:16]


def _data(setting: Setting) -> Path:
    return setting.data or Path("data")


def _placed(settings: Tables, data: Path) -> Tables:
    text = json.dumps(settings).replace("{data}", str(data.resolve()))
    tables: Tables = json.loads(text)
    return tables

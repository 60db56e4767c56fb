"""One run of the study: a small head trained on vectors, kept once it is finished.

What is kept is a JSON file, named by a hash of everything that the figures depend on:
the configuration, the bytes of the vectors, and the version of the library. It is
written beside and renamed, so that an interrupted study goes on where it stopped.
"""

import functools
import hashlib
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

import gradsnap as gs
from benchmarks.report import write
from gradsnap.data import Dataset, open_dataset
from gradsnap.evaluation import (
    EmbeddingDistances,
    Evaluation,
    code_distances,
    evaluate,
)
from gradsnap.inference.model import Model
from gradsnap.training import TrainingConfig, run_training, to_toml
from gradsnap.training.defaults import divided
from gradsnap.training.scoring import rules_of

NEAREST = 10


@dataclass(frozen=True)
class Outcome:
    """The figures of one trained head."""

    validation_map: float
    """Code MAP on the validation part: the only figure that a choice may look at."""
    code_map: float
    """On the queries, as all below."""
    float_map: float
    precision: float
    """Share of alike items among the ten that are nearest by codes."""
    float_precision: float
    fitted_to: str
    """What the validation part chose for the codebooks; none: kept from training."""
    seconds: float


def outcome(config: TrainingConfig, cache: Path) -> Outcome:
    """The figures of a run, from the cache where it was run before."""
    path = cache / f"{digest(config)}.json"
    if path.is_file():
        return Outcome(**json.loads(path.read_text(encoding="utf-8"))["figures"])
    found = _trained(config)
    content = {"config": config.model_dump(mode="json"), "figures": asdict(found)}
    write(content, path)
    return found


def digest(config: TrainingConfig) -> str:
    """A name for everything that the figures depend on, wherever the file lies."""
    source = config.data.source
    settings = to_toml(config).replace(source, _digest_of_file(Path(source)))
    return hashlib.sha256(f"{gs.__version__} {settings}".encode()).hexdigest()[:20]


@functools.cache
def _digest_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _trained(config: TrainingConfig) -> Outcome:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model = run_training(config, Path(folder) / "model")
    if model is None:
        raise RuntimeError("a study runs in one process, not in several")
    dataset = open_dataset(config.data.source)
    split = divided(dataset, config.data)
    chosen_by, _ = _ranked(model, dataset, split.validation, split.validation_database)
    codes, floats = _ranked(model, dataset, split.queries, split.database)
    return Outcome(
        validation_map=chosen_by.map,
        code_map=codes.map,
        float_map=floats.map,
        precision=codes.precision[0],
        float_precision=floats.precision[0],
        fitted_to=model.card["coder_fitted_to"],
        seconds=time.perf_counter() - started,
    )


def _ranked(
    model: Model, dataset: Dataset, asking: Tensor, searched: Tensor
) -> tuple[Evaluation, Evaluation]:
    """How codes and floats rank: items (q,) that ask, items (n,) that are searched."""
    if dataset.labels is None:
        raise RuntimeError(f"{dataset.name} has no labels")
    labels = dataset.labels[asking], dataset.labels[searched]
    queries = model.embed(dataset, indices=asking)
    database = model.embed(dataset, indices=searched)
    coder = model.coder
    by_codes = code_distances(coder, queries, coder.encode(database))
    by_floats = EmbeddingDistances(queries, database)
    rules, points = rules_of(None), (NEAREST,)
    return (
        evaluate(by_codes, *labels, rules, points=points),
        evaluate(by_floats, *labels, rules, points=points),
    )

"""One run: a network trained by a configuration, its figures kept once it is finished.

They are kept by every setting, defaults included, so that a changed default makes
another run; what changes in the library without a setting asks for another folder.
"""

import json
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.data import Dataset
from gradsnap.errors import InputError
from gradsnap.evaluation import (
    Distances,
    EmbeddingDistances,
    Evaluation,
    RankingRules,
    code_distances,
    evaluate,
    nearest_items,
    recall_at,
)
from gradsnap.experiments.cache import Record, RunCache, placeless
from gradsnap.inference.model import Model
from gradsnap.training import TrainingConfig, run_training
from gradsnap.training.defaults import divided
from gradsnap.training.scoring import rules_of
from gradsnap.training.settings import to_tables

NEAREST = 10
POINTS = (1, 10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
"""The N of precision at N; those beyond the database are left out."""


@dataclass(frozen=True)
class Outcome:
    """The figures of one trained network."""

    validation_map: float
    """Code MAP on the validation part, the only figure that a choice may look at; 0
    without one."""
    code_map: float
    """On the queries, as all below."""
    float_map: float
    precision: float
    """Share of alike items among the ten that are nearest by codes."""
    float_precision: float
    fitted_to: str
    """What the validation part chose for the codebooks; none: kept from training."""
    seconds: float
    points: list[int] = field(default_factory=list)
    """The N of ``precisions``."""
    precisions: list[float] = field(default_factory=list)
    """Share of alike items among the N nearest by codes."""
    conformity: list[int] = field(default_factory=list)
    """Rows by the conformity of their gradient, from −1 to 1, over the whole run."""
    recall: float | None = None
    """Of a query's ten nearest items by floats, the share among its ten nearest by
    codes; None in runs that were kept before it was measured."""
    step: int | None = None
    """The best by the validation part, the last without one; None as above."""


@dataclass(frozen=True)
class Measures:
    """How a ranking is measured, where a table has rules of its own."""

    length: int | None = None
    """How many results MAP looks at; None: as the protocol says."""

    def rules(self, protocol: str | None) -> RankingRules:
        """The rules of the ranking."""
        own = rules_of(protocol)
        if self.length is None:
            return own
        return RankingRules(self.length, own.divisor, own.no_hit)


def outcome(
    config: TrainingConfig, cache: RunCache, measures: Measures | None = None
) -> Outcome:
    """The figures of a run, from the cache where it was run before."""
    measures = measures or Measures()
    about = about_run(config, measures)
    return Outcome(**cache.figures(about, lambda: asdict(_trained(config, measures))))


def about_run(config: TrainingConfig, measures: Measures | None = None) -> Record:
    """Everything that the figures of a run depend on, wherever its files lie."""
    tables = to_tables(config)
    for place in ("root", "cache", "workers"):
        tables["data"].pop(place, None)
    measured = {k: v for k, v in asdict(measures or Measures()).items() if v}
    return {"version": gs.__version__, "config": placeless(tables), **measured}


def trained_model(config: TrainingConfig, folder: Path) -> Model:
    """The model of a configuration, written to a folder that is not there yet."""
    model = run_training(config, folder)
    if model is None:
        raise InputError("experiments run in one process: start them without torchrun")
    return model


def _trained(config: TrainingConfig, measures: Measures) -> Outcome:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="gradsnap-run-") as name:
        model = trained_model(config, Path(name) / "model")
        conformity = _conformity(Path(name) / "model" / "log.jsonl")
    dataset = model.open(config.data.source, config.data.root)
    data = config.data.model_copy(update={"protocol": model.card["protocol"]["name"]})
    split, rules = divided(dataset, data), measures.rules(data.protocol)
    ask = (split.validation, split.validation_database)
    chosen_by = (
        _Ranking(model, dataset, ask, rules).by_codes().map if len(ask[0]) else 0.0
    )
    asked = _Ranking(model, dataset, (split.queries, split.database), rules)
    codes, floats = asked.by_codes(), asked.by_floats()
    return Outcome(
        validation_map=chosen_by,
        code_map=codes.map,
        float_map=floats.map,
        precision=precision_at(codes, NEAREST),
        float_precision=precision_at(floats, NEAREST),
        fitted_to=model.card["coder_fitted_to"],
        seconds=time.perf_counter() - started,
        points=list(codes.points),
        precisions=list(codes.precision),
        conformity=conformity,
        recall=asked.recall(),
        step=model.card["step"],
    )


class _Ranking:
    """How items (q,) that ask rank items (n,) that are searched, by codes and floats.

    Args:
        model: makes embeddings and codes.
        dataset: the items.
        ask: who asks, and what is searched.
        rules: of the ranking.
    """

    def __init__(
        self,
        model: Model,
        dataset: Dataset,
        ask: tuple[Tensor, Tensor],
        rules: RankingRules,
    ) -> None:
        if dataset.labels is None:
            raise InputError(f"{dataset.name} has no labels")
        self.labels = dataset.labels[ask[0]], dataset.labels[ask[1]]
        self.coder, self.rules = model.coder, rules
        device = model.coder.fitted.device
        rows = (model.embed(dataset, indices=one).to(device) for one in ask)
        self.queries, self.database = rows
        self.points = [n for n in POINTS if n <= rules.cut(len(ask[1]))]

    def by_codes(self) -> Evaluation:
        codes = self.coder.encode(self.database)
        return self._evaluated(code_distances(self.coder, self.queries, codes))

    def by_floats(self) -> Evaluation:
        return self._evaluated(EmbeddingDistances(self.queries, self.database))

    def recall(self) -> float:
        k = min(NEAREST, len(self.database))
        codes = self.coder.encode(self.database)
        found = nearest_items(code_distances(self.coder, self.queries, codes), k)
        floats = EmbeddingDistances(self.queries, self.database)
        return recall_at(found, nearest_items(floats, k), k)

    def _evaluated(self, distances: Distances) -> Evaluation:
        return evaluate(distances, *self.labels, self.rules, points=self.points)


def precision_at(found: Evaluation, n: int) -> float:
    """Precision at the largest of its points that is n or less."""
    place = sum(one <= n for one in found.points) - 1
    return found.precision[max(place, 0)]


def _conformity(log: Path) -> list[int]:
    """The sum of a log's histograms; empty where none was recorded."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    counts = [line[CONFORMITY] for line in lines if CONFORMITY in line]
    if not counts:
        return []
    total: list[int] = torch.tensor(counts).sum(dim=0).tolist()
    return total


CONFORMITY = "conformity_histogram"

"""The demo's trainings, and what is measured of them."""

import contextlib
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradsnap.coders import Coder, Quantizer
from gradsnap.data import Dataset, Split
from gradsnap.errors import InputError
from gradsnap.evaluation import EmbeddingDistances, nearest_items
from gradsnap.index import ExhaustiveIndex
from gradsnap.progress import track
from gradsnap.reports.findings import Range, Records, milliseconds_a_query
from gradsnap.training import TrainingConfig, make_config, run_training
from gradsnap.training.defaults import settled
from gradsnap.training.learner import new_coder
from gradsnap.training.scoring import Labelled, Scores, protocol_card, rules_of, score
from gradsnap.training.settings import changed

if TYPE_CHECKING:
    from gradsnap.inference.model import Model

SIDES = {"plain": "without snapping", "snapping": "with snapping"}
"""The layer of each side, and what people call it."""
CODEBOOK_SIZE = 16
NEAREST = 10
"""Results of the searches whose time is taken."""

Trained = tuple["Model", TrainingConfig, Records]


@dataclass(frozen=True)
class DemoSettings:
    """How much is trained, and at which lengths of code it is compared.

    Args:
        seeds: how often each network is trained, from other weights and batches.
        steps: batches of each training.
        rates: learning rates to choose from, for each side on its own.
        bits: length of the codes that are trained for.
        lengths: bits at which both trained networks are quantized once more.
        top: results shown for a query.
    """

    seeds: int = 3
    steps: int = 400
    rates: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    bits: int = 16
    lengths: tuple[int, ...] = (8, 12, 16, 24, 32)
    top: int = 8

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")

    def config(self, layer: str, rate: float, seed: int) -> TrainingConfig:
        """One training run; only the layer differs between the two sides."""
        per_class = {"queries_per_class": 20, "training_per_class": 50}
        pixels = {"side": 8, "channels": 1, "hidden": [128]}
        tables: dict[str, Any] = {
            "data": {
                "source": "digits",
                "protocol": "paper",
                "protocol_options": per_class | {"training_in_database": False},
                "validation": 0.2,
            },
            "network": {"name": "mlp", "dim": 32, "options": pixels},
            "coder": {"bits": self.bits, "codebook_size": CODEBOOK_SIZE},
            "layer": {"name": layer},
            "optimizer": {"name": "sgd", "rate": rate},
            "run": {
                "steps": self.steps,
                "batch_size": 96,
                "seed": seed,
                "monitor_every": max(1, self.steps // 40),
                "validate_every": max(1, self.steps // 8),
                "checkpoint_every": self.steps,
                "score_queries": False,
                "device": "cpu",
            },
        }
        return make_config(tables)


@dataclass(frozen=True)
class Measured:
    """One trained network, its database encoded and searched."""

    records: Records
    queries: Labelled
    database: Labelled
    coder: Quantizer
    scores: Scores
    code_maps: dict[int, float]
    """MAP of codes by their bits, codebooks fitted anew to the same embeddings."""

    def nearest_by_floats(self, k: int) -> Tensor:
        """Places (q, k) in the database, by the embeddings' distances."""
        rows = self.queries.rows, self.database.rows
        return nearest_items(EmbeddingDistances(*rows), k)

    def nearest_by_codes(self, k: int) -> Tensor:
        """Places (q, k) in the database, by the distances to its codes."""
        return torch.as_tensor(self.index().search(self.queries.rows, k).ids)

    def index(self) -> ExhaustiveIndex:
        """The database's codes, to be searched."""
        return ExhaustiveIndex(self.coder).add(self.database.rows)


@dataclass(frozen=True)
class Row:
    """One side's line of the table."""

    name: str
    learning_rate: float
    float_map: Range
    code_map: Range
    relative_error: Range
    bytes_a_vector: float
    float_bytes_a_vector: int
    milliseconds_a_query: float
    float_milliseconds_a_query: float

    def record(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        ranges = ("float_map", "code_map", "relative_error")
        return vars(self) | {name: getattr(self, name)._asdict() for name in ranges}


@dataclass(frozen=True)
class Side:
    """The network with one layer, measured."""

    name: str
    validation: dict[float, float]
    """MAP of codes on the validation part, mean over seeds, by learning rate."""
    runs: list[Measured]
    """One for each seed."""
    row: Row

    def code_maps(self) -> dict[int, Range]:
        """MAP of codes over seeds, by bits."""
        lengths = self.runs[0].code_maps
        return {n: Range.of(run.code_maps[n] for run in self.runs) for n in lengths}


@dataclass(frozen=True)
class Findings:
    """Both sides, by their layer, with what they share."""

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
    """Trains both sides and measures them."""
    started = time.monotonic()
    first = "snapping", settings.rates[0]
    with _one_thread():
        config, dataset, split = settled(settings.config(*first, seed=0))
        sides = {
            layer: _side(layer, rates, dataset, split, settings.lengths)
            for layer, rates in train_sides(settings).items()
        }
    rules = rules_of(config.data.protocol)
    card = protocol_card(config, dataset.name, split, rules, settings.bits).record()
    return Findings(
        settings,
        sides,
        images=dataset.items.batch(split.database),
        query_images=dataset.items.batch(split.queries),
        card=card | {"rules": str(rules), "validation": len(split.validation)},
        seconds=time.monotonic() - started,
    )


def train_sides(settings: DemoSettings) -> dict[str, dict[float, list[Trained]]]:
    """Trains both sides at every rate, once for each seed."""
    runs: dict[str, dict[float, list[Trained]]] = {layer: {} for layer in SIDES}
    jobs = list(itertools.product(SIDES, settings.rates, range(settings.seeds)))
    with tempfile.TemporaryDirectory(prefix="gradsnap-demo-") as folder:
        shown = track(jobs, f"training {len(jobs)} small networks")
        for number, (layer, rate, seed) in enumerate(shown):
            config = settings.config(layer, rate, seed)
            run = _trained(config, Path(folder) / str(number))
            runs[layer].setdefault(rate, []).append(run)
    return runs


def _trained(config: TrainingConfig, out: Path) -> Trained:
    model = run_training(config, out)
    if model is None:
        raise InputError("the demo trains in one process: run it without torchrun")
    lines = (out / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return model, config, [json.loads(line) for line in lines]


def _side(
    layer: str,
    rates: dict[float, list[Trained]],
    dataset: Dataset,
    split: Split,
    lengths: tuple[int, ...],
) -> Side:
    """Measures the runs of the side's best rate.

    The choice rests on the validation part, which is cut from the training images;
    the queries are not looked at.
    """
    validation = {
        rate: fmean(model.card["validation_code_map"] or 0 for model, *_ in runs)
        for rate, runs in rates.items()
    }
    best = max(validation, key=lambda rate: validation[rate])
    runs = [_measure(run, dataset, split, lengths) for run in rates[best]]
    return Side(SIDES[layer], validation, runs, _row(SIDES[layer], best, runs))


def _measure(
    run: Trained, dataset: Dataset, split: Split, lengths: tuple[int, ...]
) -> Measured:
    """Embeds queries and database, and ranks by floats and by codes."""
    model, config, records = run
    queries = _labelled(model, dataset, split.queries)
    database = _labelled(model, dataset, split.database)
    coder = model.coder  # fitted to the database when training was over
    if not isinstance(coder, Quantizer):
        raise InputError(f"the demo draws reconstructions; {coder} has none")
    rules = rules_of(config.data.protocol)
    scores = score(coder, queries, database, rules)
    maps = {bits: scores.codes.map for bits in lengths}
    for bits in set(lengths) - {coder.bits}:
        other = _fit_other(config, bits, database)
        maps[bits] = score(other, queries, database, rules).codes.map
    return Measured(records, queries, database, coder, scores, maps)


def _fit_other(config: TrainingConfig, bits: int, database: Labelled) -> Coder:
    """A coder of another length for the same embeddings."""
    settings = changed(config, coder={"bits": bits}).coder
    dim = database.rows.shape[1]
    return new_coder(settings, dim, config.run.seed).fit(database.rows)


def _labelled(model: "Model", dataset: Dataset, indices: Tensor) -> Labelled:
    if dataset.labels is None:
        raise ValueError("the demo's data have labels")
    return Labelled(model.embed(dataset, indices=indices), dataset.labels[indices])


def _row(name: str, rate: float, runs: list[Measured]) -> Row:
    """Figures over seeds; times are the first seed's."""
    scores, first = [run.scores for run in runs], runs[0]
    index, queries, rows = first.index(), first.queries.rows, first.database.rows
    return Row(
        name,
        rate,
        float_map=Range.of(one.floats.map for one in scores),
        code_map=Range.of(one.codes.map for one in scores),
        relative_error=Range.of(one.relative_error or 0.0 for one in scores),
        bytes_a_vector=first.coder.bits / 8,
        float_bytes_a_vector=rows.shape[1] * rows.element_size(),
        milliseconds_a_query=milliseconds_a_query(
            lambda: index.search(queries, NEAREST), len(queries)
        ),
        float_milliseconds_a_query=milliseconds_a_query(
            lambda: first.nearest_by_floats(NEAREST), len(queries)
        ),
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """A single thread in torch: so small a network gains nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""The demo's numbers: what the table and the report say of each side."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradsnap.coders.quantizers import Quantizer
from gradsnap.data import Dataset, Split
from gradsnap.demo.runs import Side, Trained
from gradsnap.demo.settings import DemoSettings
from gradsnap.index import ExhaustiveIndex
from gradsnap.training.learner import new_quantizer
from gradsnap.training.scoring import Labelled, Scores, rules_of, score
from gradsnap.training.settings import changed

REPEATS = 5
NEAREST = 10


class Range(NamedTuple):
    """A figure over seeds."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Range":
        """The range of some values."""
        kept = list(values)
        return cls(fmean(kept), min(kept), max(kept))

    def overlaps(self, other: "Range") -> bool:
        """Whether some seed of one lies within the seeds of the other."""
        return self.least <= other.most and other.least <= self.most


@dataclass(frozen=True)
class Measured:
    """One trained network, its database encoded and searched."""

    queries: Labelled
    database: Labelled
    quantizer: Quantizer
    scores: Scores
    code_maps: dict[int, float]
    """MAP of codes by their bits, codebooks fitted anew to the same embeddings."""


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


def measure(
    run: Trained, dataset: Dataset, split: Split, settings: DemoSettings
) -> Measured:
    """Embeds queries and database, and ranks by floats and by codes."""
    queries = _labelled(run, dataset, split.queries)
    database = _labelled(run, dataset, split.database)
    quantizer = run.model.quantizer  # fitted to the database when training was over
    config = run.model.config
    rules = rules_of(config.data.protocol)
    scores = score(quantizer, queries, database, rules)
    maps = {quantizer.bits: scores.codes.map}
    for bits in settings.lengths:
        if bits not in maps:
            other = changed(config, quantizer={"bits": bits}).quantizer
            refitted = new_quantizer(other, run.model.network.dim, config.run.seed)
            refitted.fit(database.rows)
            maps[bits] = score(refitted, queries, database, rules).codes.map
    return Measured(queries, database, quantizer, scores, maps)


def table_row(side: Side, measured: list[Measured]) -> Row:
    """Figures over seeds; times are the first seed's."""
    first = measured[0]
    figures = [one.scores.figures() for one in measured]
    queries, rows = first.queries.rows, first.database.rows
    index = ExhaustiveIndex(first.quantizer).add(rows)
    return Row(
        name=side.name,
        learning_rate=side.rate,
        float_map=Range.of(one["float_map"] for one in figures),
        code_map=Range.of(one["code_map"] for one in figures),
        relative_error=Range.of(one["relative_error"] for one in figures),
        bytes_a_vector=first.quantizer.bits / 8,
        float_bytes_a_vector=rows.shape[1] * rows.element_size(),
        milliseconds_a_query=_milliseconds(
            lambda: index.search(queries, NEAREST), len(queries)
        ),
        float_milliseconds_a_query=_milliseconds(
            lambda: nearest(queries, rows, NEAREST), len(queries)
        ),
    )


def nearest(queries: Tensor, rows: Tensor, k: int) -> Tensor:
    """Places (q, k) of the rows (n, dim) nearest to queries (q, dim), by floats."""
    return torch.cdist(queries, rows).topk(k, largest=False).indices


def _labelled(run: Trained, dataset: Dataset, indices: Tensor) -> Labelled:
    if dataset.labels is None:
        raise ValueError("the demo's data have labels")
    return Labelled(run.model.embed(dataset, indices=indices), dataset.labels[indices])


def _milliseconds(search: Callable[[], object], queries: int) -> float:
    """Of one query, in the fastest of a few searches for all of them at once."""
    search()  # what is built once does not count
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        search()
        taken.append(time.perf_counter() - started)
    return min(taken) / queries * 1000

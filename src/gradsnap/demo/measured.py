"""What is measured of the demo's networks: one of them, a row of seeds, a side."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gradsnap.coders import Quantizer
from gradsnap.data import Dataset, Split
from gradsnap.demo.settings import Trial
from gradsnap.errors import InputError
from gradsnap.evaluation import EmbeddingDistances, RankingRules, nearest_items
from gradsnap.index import ExhaustiveIndex
from gradsnap.reports.findings import Range, Records, milliseconds_a_query
from gradsnap.training.scoring import Labelled, Scores, score

if TYPE_CHECKING:
    from gradsnap.inference.model import Model

NEAREST = 10
"""Results of the searches whose time is taken."""


class Trained(NamedTuple):
    """One finished training."""

    model: "Model"
    records: Records
    """What it logged."""


@dataclass(frozen=True)
class Measured:
    """One trained network, its database encoded and searched."""

    records: Records
    queries: Labelled
    database: Labelled
    coder: Quantizer
    scores: Scores
    fitted_to: str
    """What the codebooks were fitted to at the end; none: as training left them."""
    model: "Model"

    def nearest_by_floats(self, k: int) -> Tensor:
        """Places (q, k) in the database, by the embeddings' distances."""
        rows = self.queries.rows, self.database.rows
        return nearest_items(EmbeddingDistances(*rows), k)

    def nearest_by_codes(self, k: int) -> Tensor:
        """Places (q, k) in the database, by the distances to its codes."""
        return torch.as_tensor(self.index.search(self.queries.rows, k).ids)

    @cached_property
    def index(self) -> ExhaustiveIndex:
        """The database's codes, to be searched."""
        return ExhaustiveIndex(self.coder).add(self.database.rows)


class Data(NamedTuple):
    """The images and how they are divided."""

    dataset: Dataset
    split: Split
    rules: RankingRules

    def validation_map(self, model: "Model") -> float:
        """MAP of the finished model's codes on the validation part.

        The part is cut from the training images; the queries are not looked at.
        """
        parts = self.split.validation, self.split.validation_database
        queries, searched = (self._labelled(model, one) for one in parts)
        return score(model.coder, queries, searched, self.rules).codes.map

    def measure(self, run: Trained) -> Measured:
        """Embeds queries and database, and ranks by floats and by codes."""
        model, coder = run.model, run.model.coder
        if not isinstance(coder, Quantizer):
            raise InputError(f"the demo draws reconstructions; {coder} has none")
        parts = self.split.queries, self.split.database
        queries, database = (self._labelled(model, one) for one in parts)
        scores = score(coder, queries, database, self.rules)
        fitted_to = str(model.card["coder_fitted_to"])
        return Measured(run.records, queries, database, coder, scores, fitted_to, model)

    def _labelled(self, model: "Model", indices: Tensor) -> Labelled:
        if self.dataset.labels is None:
            raise ValueError("the demo's data have labels")
        rows = model.embed(self.dataset, indices=indices)
        return Labelled(rows, self.dataset.labels[indices])


@dataclass(frozen=True)
class Row:
    """One side's line of the table, at one length."""

    name: str
    learning_rate: float
    strength: float | None
    mixture: float
    float_map: Range
    code_map: Range
    relative_error: Range
    bytes_a_vector: float
    float_bytes_a_vector: int
    milliseconds_a_query: float
    float_milliseconds_a_query: float

    @classmethod
    def of(cls, name: str, trial: Trial, runs: list[Measured]) -> "Row":
        """Figures over seeds; times are the first seed's."""
        scores, first = [run.scores for run in runs], runs[0]
        queries, rows = first.queries.rows, first.database.rows
        return cls(
            name,
            *trial,
            float_map=Range.of(one.floats.map for one in scores),
            code_map=Range.of(one.codes.map for one in scores),
            relative_error=Range.of(one.relative_error or 0.0 for one in scores),
            bytes_a_vector=first.coder.bits / 8,
            float_bytes_a_vector=rows.shape[1] * rows.element_size(),
            milliseconds_a_query=milliseconds_a_query(
                lambda: first.index.search(queries, NEAREST), len(queries)
            ),
            float_milliseconds_a_query=milliseconds_a_query(
                lambda: first.nearest_by_floats(NEAREST), len(queries)
            ),
        )

    def record(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        ranges = ("float_map", "code_map", "relative_error")
        return vars(self) | {name: getattr(self, name)._asdict() for name in ranges}


@dataclass(frozen=True)
class Side:
    """The network with one layer, trained and measured at every length."""

    name: str
    validation: dict[Trial, float]
    """MAP of codes on the validation part, mean over seeds, at the first length."""
    trial: Trial
    """The best of them."""
    lengths: dict[int, list[Measured]]
    """One for each seed, by bits; the first length first."""
    rows: dict[int, Row]
    """By bits."""

    @property
    def runs(self) -> list[Measured]:
        """Those of the first length, one for each seed."""
        return next(iter(self.lengths.values()))

    @property
    def row(self) -> Row:
        """That of the first length."""
        return next(iter(self.rows.values()))

    def code_maps(self) -> dict[int, Range]:
        """MAP of codes over seeds, by bits."""
        return {bits: row.code_map for bits, row in self.rows.items()}

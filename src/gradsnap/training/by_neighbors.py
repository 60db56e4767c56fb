"""Learning without labels: codes should keep the nearest neighbours of the vectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.data import Dataset, RowProtocol, Split
from gradsnap.errors import InputError
from gradsnap.evaluation import (
    Distances,
    EmbeddingDistances,
    code_distances,
    nearest_items,
    recall_at,
    true_neighbors,
)
from gradsnap.losses import Relations
from gradsnap.training.batches import Batches
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.regions import Regions
from gradsnap.training.scoring import relative_error
from gradsnap.training.without_labels import WithoutLabels

NEIGHBORS = 10
"""How many neighbours a row's soft targets count for, on average."""

REGION = 64
"""Rows that a batch holds together: a row and its nearest others."""

MOST_ROWS = 32_768
"""Training rows whose neighbours are found: a sample of more. Finding them takes time
that grows with the square."""

TRIED_ROWS = 2048
"""Rows by which the temperature of soft targets is found, about."""

POINTS = (10, 100)
"""The k of recall at k: the share of the k true neighbours among the first k."""

Embed = Callable[[Tensor], Tensor]


class Graph(NamedTuple):
    """The nearest neighbours of some rows among themselves."""

    rows: Tensor
    """Indices into the data set, ascending, int64 (n,)."""
    neighbors: Tensor
    """Places in ``rows``, nearest first, int64 (n, r)."""
    shares: Tensor
    """How much each counts, (n, r), 1 in all for a row."""

    def relations(self, indices: Tensor) -> Relations:
        """How much each counts for whom, in a batch of such rows (b,)."""
        places = torch.searchsorted(self.rows, indices)
        column = torch.full((len(self.rows),), -1)
        column[places] = torch.arange(len(indices))
        found = column[self.neighbors[places]]  # (b, r), −1 if not in the batch
        grades = torch.zeros(len(indices), len(indices) + 1)
        last = found.where(found >= 0, len(indices))  # those go to a column of no one
        grades = grades.scatter_(1, last, self.shares[places])[:, :-1]
        return Relations(grades > 0, grades == 0, grades)


def soft_targets(distances: Tensor, count: float) -> Tensor:
    """Shares (n, r) of the nearest, a softmax of −distances (n, r) over a temperature.

    One temperature for all rows, at which the shares of a row are as even as if
    ``count`` neighbours shared them equally: exp of their entropy, mean over rows.

    Example:
        >>> soft_targets(torch.tensor([[0.0, 1.0, 1e9]]), 2 - 1e-3).round(decimals=1)
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    apart = distances - distances[:, :1]
    some = apart[:: max(1, len(apart) // TRIED_ROWS)].double()
    low, high = -100.0, 100.0  # of the temperature's logarithm
    for _ in range(60):
        middle = (low + high) / 2
        shares = (-some / math.exp(middle)).softmax(dim=1)
        even = torch.special.entr(shares).sum(dim=1).exp().mean()
        low, high = (low, middle) if even > count else (middle, high)
    return (-apart / math.exp(low)).softmax(dim=1)


@dataclass(frozen=True, eq=False)
class ByNeighbors(WithoutLabels):
    """Rows are alike that are nearest neighbours; codes are judged by keeping them.

    The neighbours are those of the vectors as they are given, in all their dimensions.
    """

    dataset: Dataset
    """Of vectors, once they are looked at."""
    parts: Split

    protocol: ClassVar[str] = "rows"
    figure: ClassVar[str] = f"recall_at_{POINTS[0]}"
    title: ClassVar[str] = f"recall@{POINTS[0]}"

    @classmethod
    def of(cls, dataset: Dataset, settings: DataSettings) -> "ByNeighbors":
        """Of a data set whose labels, if any, are not looked at.

        Raises:
            InputError: too few rows, or options that rows do not have.
        """
        known = {field.name for field in fields(RowProtocol)} - {"validation"}
        unknown = sorted(settings.protocol_options.keys() - known)
        if settings.protocol not in (None, cls.protocol) or unknown:
            asked = ", ".join(unknown) or f"data.protocol={settings.protocol}"
            raise InputError(
                f"rows without labels are not divided by {asked}; data.protocol is "
                f"{cls.protocol}, with the options {', '.join(sorted(known))}"
            )
        options = settings.protocol_options | {"validation": settings.validation}
        parts = RowProtocol(**options).split(len(dataset), settings.split_seed)
        return cls(dataset, parts)

    def looking_at(self, items: Dataset) -> "ByNeighbors":
        """The same rows by what a frozen trunk makes of them, where they are images."""
        return replace(self, dataset=items)

    def batches(self, config: TrainingConfig, train: Tensor) -> Batches:
        """Regions of rows that lie close together."""
        size = config.run.batch_size or len(train)
        graph = self.graph
        return Regions(graph.rows, graph.neighbors, size, config.run.seed)

    def target(self, indices: Tensor) -> Relations:
        """Who is near to whom, and how much; all others are unlike."""
        return self.graph.relations(indices)

    def score(
        self, coder: Coder, embed: Embed, queries: Tensor, database: Tensor
    ) -> dict[str, float]:
        """Recall of the true neighbours by floats and by codes, and the error."""
        exact = self._exact(queries, database)
        asking, rows = embed(queries), embed(database)
        kinds = {
            "float": EmbeddingDistances(asking, rows),
            "code": code_distances(coder, asking, coder.encode(rows)),
        }
        figures = {
            f"{kind}_{name}": value
            for kind, distances in kinds.items()
            for name, value in _recalls(distances, exact).items()
        }
        error = relative_error(coder, rows)
        return figures | ({} if error is None else {"relative_error": error})

    def card(
        self, config: TrainingConfig, split: Split, bits: int | None
    ) -> dict[str, Any]:
        """How rows were divided, and what is measured."""
        shown = ", ".join(f"recall@{k}" for k in POINTS)
        return {
            "protocol": {"name": self.protocol, **config.data.protocol_options},
            "rules": f"{shown}: the share of a query's k nearest vectors among its "
            "first k results; queries and results as float vectors and as codes",
            "card": {
                "dataset": self.dataset.name,
                "queries": len(split.queries),
                "training": len(split.train),
                "database": len(split.database),
                "training_in_database": True,
                "split_hashes": [split.hash],
                "bits": bits,
            },
        }

    @cached_property
    def graph(self) -> Graph:
        """The neighbours of the training rows, or of a sample of them."""
        rows = self.parts.train
        if len(rows) > MOST_ROWS:
            generator = torch.Generator().manual_seed(0)
            chosen = torch.randperm(len(rows), generator=generator)[:MOST_ROWS]
            rows = rows[chosen].sort().values
        kept = min(REGION, len(rows)) - 1
        found = true_neighbors(self._read, rows, rows, kept)
        return Graph(rows, found.places, soft_targets(found.distances, NEIGHBORS))

    @cached_property
    def _known(self) -> dict[int, Tensor]:
        return {}

    def _exact(self, queries: Tensor, database: Tensor) -> Tensor:
        """The true neighbours of queries, places in the database, (q, at most 100)."""
        key = hash((queries.numpy().tobytes(), database.numpy().tobytes()))
        if key not in self._known:
            k = min(POINTS[-1], len(database) - 1)
            self._known[key] = true_neighbors(self._read, queries, database, k).places
        return self._known[key]

    def _read(self, indices: Tensor) -> Tensor:
        """Vectors (n, dim) at indices."""
        rows = self.dataset.items.batch(indices)
        if rows.ndim != 2:
            raise InputError(
                f"{self.dataset.name} holds images, whose neighbours are those of a "
                "frozen trunk's outputs: choose network.name=efficientnet-lite0 and "
                "network.trainable_blocks=0, or give labels or --pairs FILE"
            )
        return rows.float()


def _recalls(distances: Distances, exact: Tensor) -> dict[str, float]:
    found = nearest_items(distances, exact.shape[1]).cpu()
    points = [min(k, exact.shape[1]) for k in POINTS]
    return {
        f"recall_at_{k}": recall_at(found, exact[:, :cut], cut)
        for k, cut in zip(POINTS, points, strict=True)
    }

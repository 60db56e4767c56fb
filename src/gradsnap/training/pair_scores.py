"""How floats and codes rank the pairs that a part is judged by."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.evaluation import (
    Distances,
    EmbeddingDistances,
    code_distances,
    pair_auc,
    pair_average_precision,
    pair_distances,
    partner_figures,
)
from gradsnap.training.scoring import Embed, relative_error

POINTS = (1, 10)
"""The N of recall at N."""

MOST_ASKING = 5000
"""Held-out items that ask, at most: evenly chosen among more."""


class Asked(NamedTuple):
    """The pairs a part is judged by."""

    pairs: Tensor
    """int64 (m, 2): an item of the part, and one that it was compared with."""
    alike: Tensor
    """bool (m,)."""

    @property
    def both_kinds(self) -> bool:
        """Whether some are alike and some are not."""
        return bool(self.alike.any() and not self.alike.all())

    def alike_alone(self) -> "Asked":
        """Without the others."""
        return Asked(self.pairs[self.alike], self.alike[self.alike])


def evenly(indices: Tensor, most: int) -> Tensor:
    """At most so many of the indices (n,), spread over all."""
    if len(indices) <= most:
        return indices
    return indices[torch.linspace(0, len(indices) - 1, most).long()]


Measure = Callable[[Distances, Tensor, Tensor, Tensor], dict[str, float]]
"""Figures of distances (q, n), pairs (m, 2) of their rows and columns, whether they are
alike (m,), and the column of each query itself (q,)."""


def scores(
    coder: Coder, embed: Embed, asked: Asked, measure: Measure
) -> dict[str, float]:
    """What a measure finds of floats and of codes, and the quantization error."""
    asking = asked.pairs[:, 0].unique()
    named = asked.pairs.unique()  # all of them are ranked, those that ask too
    rows = embed(named)
    queries = rows[torch.searchsorted(named, asking).to(rows.device)]
    first = torch.searchsorted(asking, asked.pairs[:, 0].contiguous())
    second = torch.searchsorted(named, asked.pairs[:, 1].contiguous())
    told = (
        torch.stack([first, second], dim=1).to(rows.device),
        asked.alike.to(rows.device),
        torch.searchsorted(named, asking).to(rows.device),
    )
    kinds = {
        "float": EmbeddingDistances(queries, rows),
        "code": code_distances(coder, queries, coder.encode(rows)),
    }
    figures = {
        f"{kind}_{name}": value
        for kind, distances in kinds.items()
        for name, value in measure(distances, *told).items()
    }
    error = relative_error(coder, rows)
    return figures | ({} if error is None else {"relative_error": error})


def of_pairs(
    distances: Distances, pairs: Tensor, alike: Tensor, own: Tensor
) -> dict[str, float]:
    """Average precision and AUC; a ``Measure``."""
    apart = pair_distances(distances, pairs)
    return {"ap": pair_average_precision(apart, alike), "auc": pair_auc(apart, alike)}


def of_partners(
    distances: Distances, pairs: Tensor, alike: Tensor, own: Tensor
) -> dict[str, float]:
    """Mean average precision and recalls of partners; a ``Measure``."""
    found = partner_figures(distances, own, pairs[alike], POINTS)
    return {"partner_map": found.pop("map"), **found}

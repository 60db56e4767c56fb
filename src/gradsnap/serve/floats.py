"""Ranking by the embeddings themselves, where the index keeps them in half precision.

The answer codes are measured by: all items, compared as floats.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.index import HalfPrecision, Index, SearchResult
from gradsnap.index.best import Best
from gradsnap.index.segments import checked_ids

BLOCK = 16_384
"""Items that are compared at once."""

MOST_NUMBERS = 2**28
"""Items times dim that one query may be compared with: half a gigabyte, half a second.
"""

Array = NDArray[Any]


def keeps_floats(index: Index) -> bool:
    """Whether all items can be ranked by their embeddings."""
    return (
        isinstance(index.refiner, HalfPrecision)
        and len(index) * index.refiner.dim <= MOST_NUMBERS
    )


@torch.no_grad()
def nearest_by_floats(
    index: Index,
    vectors: Tensor | None,
    items: list[Any],
    k: int,
    where: str | None = None,
    within: list[Any] | None = None,
) -> SearchResult:
    """The k nearest of all items by their embeddings, nearest first, ties by id.

    Args:
        index: keeps its embeddings.
        vectors: queries (q, dim); None for items.
        items: ids whose embeddings are the queries.
        k: how many.
        where: a condition that results must fulfil.
        within: ids to search among.
    """
    if not keeps_floats(index) or index.refiner is None:
        raise InputError("this index keeps no embeddings to rank by, or too many")
    if vectors is None:
        places = index.items.places(checked_ids(items))
        rows = index.items.fine_rows(places, index.refiner.row_bytes)
        vectors = torch.from_numpy(rows.view(np.float16)).float()
    best = Best.empty(len(vectors), min(k, max(1, len(index))))
    allowed = index._allowed(within, where)
    base = 0
    for number, segment in enumerate(index.items.segments):
        at = segment.counted() if allowed is None else allowed[number].positions
        keys = segment.all_ids()
        for start in range(0, len(at), BLOCK):
            part = at[start : start + BLOCK]
            rows = np.ascontiguousarray(np.asarray(segment.fine)[part])
            _offer(vectors, rows, (keys[part], part + base), best)
        base += len(segment)
    best = best.ranked()
    ids, distances = best.tensors()
    if index.items.named:
        return SearchResult(index.items.strings(best.places), distances)
    return SearchResult(ids, distances)


def _offer(
    queries: Tensor, rows: Array, known: tuple[Array, Array], best: Best
) -> None:
    """Compares queries (q, dim) with rows (b, 2 · dim bytes), and keeps the nearest."""
    kept = torch.from_numpy(rows.view(np.float16)).float()  # (b, dim)
    for query, row in enumerate(queries):
        far = (kept - row).square().sum(dim=1).numpy()  # (b,)
        best.merge(query, (far, *known))

"""Indexes of every kind over every quantizer, and the slow twin of a search."""

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsnap.coders.quantizers import QUANTIZERS, Quantizer
from gradsnap.errors import InputError
from gradsnap.index import INDEXES, Index, Refiner
from gradsnap.index.lists import ListedIndex
from tests.conftest import clustered, fitted

OVER_QUANTIZERS = [kind for kind, one in INDEXES.items() if one.takes_vectors]
COUNT = 36
"""What indexes are sized for: few lists, so that all of them can be looked into."""


@functools.cache
def learned(index_kind: str, residual: bool) -> dict[str, Tensor]:
    """What ``fit`` learns beside codebooks: the same for every quantizer."""
    index: Index = _empty(index_kind, fitted("pq"), residual)
    return index.fit(clustered(300)).state()


def _empty(
    index_kind: str,
    quantizer: Quantizer,
    residual: bool,
    refiner: Refiner | None = None,
) -> Any:
    kind = INDEXES[index_kind]
    try:
        index = kind.of_size(quantizer, COUNT, residual=residual, refiner=refiner)
    except InputError:  # a kind that has no use for residuals
        index = kind.of_size(quantizer, COUNT, refiner=refiner)
    if isinstance(index, ListedIndex):
        index.probes = index.num_lists
    return index


def made(
    index_kind: str,
    quantizer: Quantizer,
    residual: bool = False,
    refiner: Refiner | None = None,
) -> Any:
    """An index that is ready for items, without learning its lists again.

    All lists are looked into, so that results are those of a scan of everything.
    """
    index = _empty(index_kind, quantizer, residual, refiner)
    index.restore(learned(index_kind, residual))
    return index


def reconstructions(index: Any, x: Tensor) -> Tensor:
    """What the index keeps of x (n, dim), in double precision, by definition."""
    quantizer: Quantizer = index.coder
    if not getattr(index, "residual", False):
        return quantizer.decode(quantizer.encode(x)).double()
    lists = index.lists_of(x)
    parts = quantizer.decode(quantizer.encode(index._left(x, lists))).double()
    rotations = getattr(index, "rotations", None)
    if rotations is not None:
        parts = torch.stack(
            [rotations[n].double() @ row for n, row in zip(lists, parts, strict=True)]
        )
    centroids: Tensor = index._centroids_of(lists).double()
    return parts + centroids


def plain_search(
    queries: Tensor, kept: Tensor, ids: list[Any], k: int
) -> list[list[tuple[float, Any]]]:
    """Squared distances to reconstructions (n, dim), sorted, one pair at a time."""
    found = []
    for query in queries.double().numpy():
        pairs = [
            (float(np.square(query - row).sum()), i)
            for row, i in zip(kept.numpy(), ids, strict=True)
        ]
        found.append(sorted(pairs)[:k])
    return found


def table_search(
    index: Any, queries: Tensor, x: Tensor, ids: list[Any], k: int
) -> list[list[tuple[float, Any]]]:
    """The same by ``quantizer.distances``, list by list."""
    quantizer: Quantizer = index.coder
    whole = torch.empty(len(queries), len(x), dtype=torch.float64)
    if not getattr(index, "residual", False):
        whole[:] = quantizer.distances(queries, quantizer.encode(x))
    else:
        lists = index.lists_of(x)
        codes = quantizer.encode(index._left(x, lists))
        for number in lists.unique():
            asked = index._left(queries, number.expand(len(queries)))
            here = lists == number
            whole[:, here] = quantizer.distances(asked, codes[here]).double()
    return [sorted(zip(row.tolist(), ids, strict=True))[:k] for row in whole]


def assert_same_search(
    result: Any, expected: list[list[tuple[float, Any]]], slack: float
) -> None:
    """Same distances; same ids wherever distances differ by more than rounding."""
    for ids, distances, wanted in zip(
        result.ids.tolist(), result.distances.tolist(), expected, strict=True
    ):
        np.testing.assert_allclose(distances, [d for d, _ in wanted], atol=slack)
        assert distances == sorted(distances)
        for value, got in zip(distances, ids, strict=True):
            near = [i for d, i in wanted if abs(d - value) <= slack]
            last = wanted[-1][0]
            assert got in near or abs(value - last) <= slack


KINDS = list(QUANTIZERS)

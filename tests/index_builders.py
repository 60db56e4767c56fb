"""Indexes of every kind over every quantizer, and the slow twin of a search."""

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsnap.coders.quantizers import QUANTIZERS, Quantizer
from gradsnap.index import INDEXES
from tests.conftest import clustered, fitted

OVER_QUANTIZERS = [kind for kind in INDEXES if kind != "hamming"]
OPTIONS: dict[str, dict[str, Any]] = {
    "exhaustive": {},
    "inverted": {"num_lists": 6, "probes": 6},
    "multi": {"codewords": 4, "probes": 16},
    "local": {"num_lists": 4, "probes": 4},
}
"""All lists are looked into, so that results are those of a scan of everything."""


@functools.cache
def learned(index_kind: str, residual: bool) -> dict[str, Tensor]:
    """What ``fit`` learns beside codebooks: the same for every quantizer."""
    index = INDEXES[index_kind](fitted("pq"), **_options(index_kind, residual))
    state: dict[str, Tensor] = index.fit(clustered(300)).state()
    return state


def _options(index_kind: str, residual: bool) -> dict[str, Any]:
    residual = residual and index_kind in ("inverted", "multi")
    return OPTIONS[index_kind] | ({"residual": True} if residual else {})


def made(
    index_kind: str, quantizer: Quantizer, residual: bool = False, **more: Any
) -> Any:
    """An index that is ready for items, without learning its lists again."""
    index = INDEXES[index_kind](quantizer, **(_options(index_kind, residual) | more))
    if index_kind != "exhaustive":
        index.restore(learned(index_kind, residual))
    return index


def reconstructions(index: Any, x: Tensor) -> Tensor:
    """What the index keeps of x (n, dim), in double precision, by definition."""
    quantizer: Quantizer = index.quantizer
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
    quantizer: Quantizer = index.quantizer
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

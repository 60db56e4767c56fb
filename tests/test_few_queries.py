"""A few queries on lists: their lists, one call for all, codes paired in bytes."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import OptimizedProductQuantizer, ProductQuantizer
from gradsnap.index import (
    ExhaustiveIndex,
    InvertedIndex,
    MultiIndex,
    lists_compiled,
    probing,
    scanning,
)
from gradsnap.index.lists import ListedIndex
from tests.conftest import clustered, fitted
from tests.test_filters import same, wide


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- the nearest lists ----------------------------------------------------------


@pytest.mark.parametrize("dim", [3, 8, 17])
@pytest.mark.parametrize("lists", [5, 64, 131])
def test_nearest_centroids_are_those_of_plain_torch(
    dim: int, lists: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, x = drawn(lists, dim), drawn(4, dim, seed=1)
    centroids = probing.Centroids.of(rows)
    apart = (x[:, None].double() - rows.double()).square().sum(dim=2)
    assert torch.equal(centroids.nearest(x, lists), apart.argsort(dim=1))
    ours = [centroids.nearest(x, count) for count in (2, lists)]
    monkeypatch.setattr(probing, "kernels", lambda name: None)
    plain = [centroids.nearest(x, count) for count in (2, lists)]
    assert all(map(torch.equal, ours, plain))


def test_equal_centroids_come_in_their_order() -> None:
    centroids = probing.Centroids.of(torch.ones(70, 4))
    assert torch.equal(centroids.nearest(drawn(2, 4), 70)[1], torch.arange(70))


@pytest.mark.parametrize("count", [1, 5, 6])
@pytest.mark.parametrize("queries", [2, 40])
@pytest.mark.parametrize("value", [1e30, 3e38, torch.nan, torch.inf])
def test_lists_beyond_numbers_are_lists_all_the_same(
    count: int, queries: int, value: float
) -> None:
    rows, x = drawn(6, 4), drawn(queries, 4, seed=1)
    rows[2], x[1] = 1e25, value
    found = probing.Centroids.of(rows).nearest(x, count)
    assert all(len(set(row)) == count for row in found.tolist())
    assert int(found.min()) >= 0
    assert int(found.max()) < len(rows)


@pytest.mark.parametrize("size", [2, 16, 32, 128, 512])
@pytest.mark.parametrize("share", [1e-4, 0.1, 0.3, 1.0])
def test_nearest_pairs_are_the_smallest_of_all_sums(size: int, share: float) -> None:
    tables = drawn(2, 2, size).square()
    count = min(5000, max(1, round(share * size * size)))
    found = probing.nearest_pairs(tables, count)
    sums = (tables[:, 0, :, None] + tables[:, 1, None]).flatten(1)
    expected = sums.argsort(dim=1)[:, :count]
    assert torch.equal(found[:, 0], expected[:, 0])
    assert torch.equal(found.sort(dim=1).values, expected.sort(dim=1).values)


@pytest.mark.parametrize("count", [1, 7, 20, 63, 64])
@pytest.mark.parametrize("levels", [1, 2, 5])
def test_of_pairs_with_equal_sums_as_many_come_as_are_asked_for(
    count: int, levels: int
) -> None:
    tables = (levels * drawn(20, 2, 8).abs()).floor()
    sums = (tables[:, 0, :, None] + tables[:, 1, None]).flatten(1)
    found = probing.nearest_pairs(tables, count)
    assert all(len(set(row)) == count for row in found.tolist())
    ours = sums.gather(1, found).sort(dim=1).values
    assert torch.equal(ours, sums.sort(dim=1).values[:, :count])


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_pairs_beyond_numbers_are_pairs_all_the_same(value: float) -> None:
    tables = drawn(4, 2, 8).square()
    tables[0], tables[1, 0], tables[2, 1, 3] = value, value, value
    for count in (1, 30, 64):
        found = probing.nearest_pairs(tables, count)
        assert int(found.min()) >= 0
        assert int(found.max()) < 64


# --- one call for all -----------------------------------------------------------

KINDS = ("inverted", "short codes", "rotated codes", "multi", "rotated lists")


def listed(kind: str) -> ListedIndex:
    """An index in two segments that has lost items."""
    x = drawn(500, 16)
    turned = OptimizedProductQuantizer(16, 2, 4)
    made: dict[str, Any] = {
        "inverted": lambda: InvertedIndex(wide(), num_lists=9, probes=4),
        "short codes": lambda: InvertedIndex(
            ProductQuantizer(16, 3, 32), num_lists=9, probes=4
        ),
        "rotated codes": lambda: InvertedIndex(
            OptimizedProductQuantizer(16, 4, 16), num_lists=9, probes=4
        ),
        "multi": lambda: MultiIndex(wide(), codewords=4, probes=5),
        "rotated lists": lambda: MultiIndex(wide(), coarse=turned, probes=5),
    }
    index: ListedIndex = made[kind]()
    index.fit(x).add(x[:400]).add(x[400:]).remove(range(0, 500, 11))
    return index


@pytest.mark.parametrize("kind", KINDS)
def test_one_call_gives_what_its_steps_give(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = listed(kind)
    queries = drawn(3, 16, seed=9)
    some = index.filter([i for i in range(0, 500, 3) if i in index])
    few = index.filter([i for i in range(0, 500, 20) if i in index])
    given: list[dict[str, Any]] = [{}, {"within": some}, {"within": few}]
    assert index._together(queries) is not None
    ours = [index.search(queries, 7, **options) for options in given]
    monkeypatch.setattr(ListedIndex, "_together", lambda self, rows: None)
    steps = [index.search(queries, 7, **options) for options in given]
    assert all(map(same, ours, steps))


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_query_finds_the_same_alone_and_among_others(
    kind: str, segments: int, two_threads: None
) -> None:
    index = listed(kind) if segments == 2 else listed(kind).compact()
    assert len(index.items.segments) == segments
    queries = drawn(45, 16, seed=9)
    some = torch.tensor([i for i in range(0, 500, 3) if i in index])
    for within in (None, some, index.filter(some)):
        together = index.search(queries, 7, within=within)
        for at in (0, 17, 44):
            alone = index.search(queries[at : at + 1], 7, within=within)
            assert torch.equal(alone.ids[0], together.ids[at])
            assert torch.equal(alone.distances[0], together.distances[at])


# --- two codes a byte -----------------------------------------------------------


@pytest.mark.parametrize("books", [1, 3, 8, 15, 16, 17])
@pytest.mark.parametrize("residual", [False, True])
def test_paired_codes_are_scanned_as_plain_torch_scans(
    books: int, residual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = clustered(900, dim=20, seed=1)
    x[600:] = x[:300]  # as near as others, to the bit
    quantizer = fitted("pq", dim=20, num_codebooks=books)
    index = InvertedIndex(quantizer, num_lists=6, probes=3, residual=residual)
    index.fit(x).add(x).remove(range(0, 300, 7))
    queries = clustered(12, dim=20, seed=2)
    many, few = index.search(queries, 30), index.search(queries[:3], 5)
    words = next(index.items.columns()).words
    assert len(words) == (900 if books <= 16 else 0)
    monkeypatch.setattr(scanning, "kernel", lambda: None)
    assert same(many, index.search(queries, 30))
    assert same(few, index.search(queries[:3], 5))


def test_codes_whose_entries_may_be_negative_are_not_paired() -> None:
    index = ExhaustiveIndex(fitted("rvq")).add(clustered(50))
    assert len(next(index.items.columns()).words) == 0


def test_sums_in_another_order_are_within_the_slack() -> None:
    """The bound that lets a sum of pairs rule items out, on entries of all sizes."""
    rng = np.random.default_rng(0)
    entries = (10 ** rng.uniform(-6, 6, (20_000, 16))).astype(np.float32)
    in_order = entries[:, 0].copy()
    for column in entries.T[1:]:
        in_order += column
    pairs = entries[:, ::2] + entries[:, 1::2]
    by_pairs = pairs[:, 0].copy()
    for column in pairs.T[1:]:
        by_pairs += column
    assert (by_pairs != in_order).any()
    assert (by_pairs <= in_order * lists_compiled.SLACK).all()


# --- conditions that are remembered ---------------------------------------------


def test_a_condition_is_read_again_once_something_changed() -> None:
    index = ExhaustiveIndex(fitted("pq"))
    index.add(clustered(6), metadata={"year": [1, 1, 2, 2, 2, 3]})

    def ids() -> list[int]:
        row = index.search(clustered(1), 6, where="year = 2").ids[0]
        return sorted(row[row >= 0].tolist())

    assert ids() == ids() == [2, 3, 4]
    index.update([0], {"year": [2]})
    assert ids() == ids() == [0, 2, 3, 4]
    index.remove([3])
    assert ids() == ids() == [0, 2, 4]
    index.add(clustered(1), [9], metadata={"year": [2]})
    assert ids() == ids() == [0, 2, 4, 9]


def test_few_conditions_are_remembered() -> None:
    index = ExhaustiveIndex(fitted("pq"))
    index.add(clustered(6), metadata={"year": [1, 1, 2, 2, 2, 3]})
    for year in [1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 1]:
        found = index.search(clustered(1), 6, where=f"year = {year}").ids
        assert int((found >= 0).sum()) == {1: 2, 2: 3, 3: 1}.get(year, 0)
    assert len(index._conditions._known) <= 4

"""The battery: what is true of every index over every quantizer."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import QUANTIZERS, ProductQuantizer, Quantizer
from gradsnap.errors import InputError, NotFittedError
from gradsnap.index import INDEXES, load_index, scanning
from tests.conftest import DIM, clustered, fitted
from tests.index_builders import (
    OVER_QUANTIZERS,
    assert_same_search,
    made,
    plain_search,
    reconstructions,
    table_search,
)

SLACK = 2e-4
PAIRS = list(itertools.product(OVER_QUANTIZERS, QUANTIZERS))


@pytest.fixture(params=OVER_QUANTIZERS)
def index_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def index(index_kind: str) -> Any:
    """An index of each kind over product codes, with 120 items."""
    return made(index_kind, fitted("pq")).add(clustered(120, seed=1))


@pytest.fixture
def queries() -> Tensor:
    return clustered(9, seed=2)


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "kernel", lambda: None)


# --- results ------------------------------------------------------------------


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("index_kind", "kind"), PAIRS)
def test_results_are_those_of_a_plain_scan(
    index_kind: str, kind: str, residual: bool, queries: Tensor
) -> None:
    quantizer = fitted(kind)
    index = made(index_kind, quantizer, residual)
    x = clustered(120, seed=1)
    ids = torch.randperm(500, generator=torch.Generator().manual_seed(3))[:120]
    index.add(x, ids)
    torch.testing.assert_close(
        index.reconstruct(ids[::7]).double(),
        reconstructions(index, x)[::7],
        atol=SLACK,
        rtol=0,
    )
    found = index.search(queries, 20)
    assert found.ids.dtype == torch.int64
    assert found.distances.dtype == torch.float32
    if kind == "cq":  # its distances take the cross term for constant
        expected = table_search(index, queries, x, ids.tolist(), 20)
    else:
        kept = reconstructions(index, x)
        expected = plain_search(queries, kept, ids.tolist(), 20)
    assert_same_search(found, expected, SLACK)


@pytest.mark.parametrize(("index_kind", "kind"), PAIRS)
def test_plain_torch_and_the_kernel_agree_to_the_bit(
    index_kind: str, kind: str, queries: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = made(index_kind, fitted(kind), residual=True)
    index.add(clustered(90, seed=1)).remove([5, 6, 50])
    many, few = index.search(queries, 25), index.search(queries[:3], 25)
    without_compiler(monkeypatch)
    for ours, plain in (
        (many, index.search(queries, 25)),
        (few, index.search(queries[:3], 25)),
    ):
        assert torch.equal(ours.ids, plain.ids)
        assert torch.equal(ours.distances, plain.distances)


@pytest.mark.parametrize("kind", ["pq", "rvq"])
@pytest.mark.parametrize("size", [2, 32, 256, 512])
def test_any_codebook_size(kind: str, size: int, queries: Tensor) -> None:
    quantizer = QUANTIZERS[kind](DIM, 3, size)
    generator = torch.Generator().manual_seed(0)
    quantizer.codebooks.copy_(
        torch.randn(quantizer.codebooks.shape, generator=generator)
    )
    if kind == "pq":
        quantizer.codebooks[2, :, -1] = 0  # the padding of a short block
    quantizer.fitted.fill_(True)
    x = clustered(80, seed=1)
    index = INDEXES["exhaustive"](quantizer).add(x)
    expected = plain_search(queries, quantizer(x).double(), list(range(80)), 9)
    assert_same_search(index.search(queries, 9), expected, 1e-3)


def test_ties_go_to_the_lower_id(index_kind: str, queries: Tensor) -> None:
    index = made(index_kind, fitted("pq"))
    row = clustered(1, seed=1)
    ids = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    for part in ids.split(25):
        index.add(row.expand(len(part), -1), part)
    for many in (queries, queries[:2]):
        found = index.search(many, 7)
        assert found.ids.tolist() == [list(range(7))] * len(many)


def test_threads_change_nothing(index: Any) -> None:
    many = clustered(100, seed=5)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one = index.search(many, 12)
    torch.set_num_threads(2)
    two = index.search(many, 12)
    torch.set_num_threads(before)
    assert torch.equal(one.ids, two.ids)
    assert torch.equal(one.distances, two.distances)


def test_a_search_does_not_depend_on_segments(index_kind: str, queries: Tensor) -> None:
    x = clustered(150, seed=1)
    whole = made(index_kind, fitted("pq")).add(x)
    parts = made(index_kind, fitted("pq"))
    for part in x.split(40):
        parts.add(part)
    assert torch.equal(whole.search(queries, 30).ids, parts.search(queries, 30).ids)


# --- ids, filters, removal ----------------------------------------------------


def test_k_larger_than_the_index_is_padded(index_kind: str, queries: Tensor) -> None:
    index = made(index_kind, fitted("pq")).add(clustered(3, seed=1), [7, 5, 9])
    found = index.search(queries, 5)
    assert found.ids.shape == (9, 5)
    assert (found.ids[:, 3:] == -1).all()
    assert found.distances[:, 3:].isinf().all()
    assert sorted(found.ids[0, :3].tolist()) == [5, 7, 9]


def test_an_empty_index(index_kind: str, queries: Tensor, tmp_path: Path) -> None:
    index = made(index_kind, fitted("pq"))
    assert len(index) == 0
    for each in (index, index.add(clustered(0))):
        assert (each.search(queries, 4).ids == -1).all()
    index.save(tmp_path / "empty")
    again = load_index(tmp_path / "empty")
    assert (again.search(queries, 4).ids == -1).all()
    assert again.search(queries[:0], 4).ids.shape == (0, 4)
    assert len(again.add(clustered(4))) == 4


def test_string_ids(index_kind: str, queries: Tensor, tmp_path: Path) -> None:
    x = clustered(40, seed=1)
    numbers = made(index_kind, fitted("pq")).add(x)
    names = made(index_kind, fitted("pq"))
    strings = [f"bild-{i:03d}-ä" for i in range(40)]
    names.add(x[:25], strings[:25]).add(x[25:], np.array(strings[25:]))
    expected = [
        [strings[i] if i >= 0 else None for i in row]
        for row in numbers.search(queries, 45).ids.tolist()
    ]
    assert names.search(queries, 45).ids == expected
    names.save(tmp_path / "names")
    assert load_index(tmp_path / "names").search(queries, 45).ids == expected
    names.remove(["bild-003-ä"])
    assert "bild-003-ä" not in names.search(queries, 45).ids[0]
    only = names.search(queries[:1], 3, within=["bild-001-ä", "bild-030-ä"]).ids[0]
    assert set(only) == {"bild-001-ä", "bild-030-ä", None}
    with pytest.raises(InputError, match="ids of this index are strings; got none"):
        names.add(x)
    with pytest.raises(InputError, match="ids of this index are strings; got numbers"):
        names.add(x, torch.arange(40))


def test_filtered_search(index: Any, queries: Tensor) -> None:
    every = index.search(queries, 120)
    within = [3, 4, 5, 60, 61, 119]
    found = index.search(queries, 8, within=within)
    for row, whole, far in zip(found.ids, every.ids, every.distances, strict=True):
        wanted = [i for i in whole.tolist() if i in within]
        assert row.tolist() == [*wanted, -1, -1]
        assert far.isfinite().all()
    assert (index.search(queries, 2, within=[]).ids == -1).all()


def test_removed_items_are_gone(index: Any, queries: Tensor) -> None:
    before = index.search(queries, 120)
    gone = [0, 1, 2, 40, 77, 119]
    assert index.remove(torch.tensor(gone)) is index
    assert len(index) == 114
    for _ in range(2):
        found = index.search(queries, 120)
        for row, old in zip(found.ids.tolist(), before.ids.tolist(), strict=True):
            assert row == [i for i in old if i not in gone] + [-1] * 6
        with pytest.raises(InputError, match=r"1 of 2 ids are not in the index.* 40;"):
            index.remove([3, 40])
        with pytest.raises(InputError, match="not in the index"):
            index.search(queries, 3, within=[77])
        index.compact()
    index.add(clustered(2), [40, 77])
    assert len(index) == 116


def test_ids_count_on(index_kind: str) -> None:
    index = made(index_kind, fitted("pq"))
    index.add(clustered(3)).add(clustered(2), [10, 2**40]).add(clustered(1))
    found = index.search(clustered(1), 6).ids[0].tolist()
    assert sorted(found) == [0, 1, 2, 10, 2**40, 2**40 + 1]
    index.remove(range(3)).compact()
    assert sorted(index.search(clustered(1), 3).ids[0].tolist()) == [
        10,
        2**40,
        2**40 + 1,
    ]


def test_metadata(index: Any, queries: Tensor, tmp_path: Path) -> None:
    index.add(clustered(30, seed=8), metadata={"path": [f"{i}.jpg" for i in range(30)]})
    more = {"price": torch.arange(5), "path": ["x"] * 5}
    index.add(clustered(5, seed=9), metadata=more)
    assert index.metadata([121, 0, 152])[0]["path"] == "1.jpg"
    index.remove([120]).compact()
    index.save(tmp_path / "index")
    for each in (index, load_index(tmp_path / "index")):
        rows = each.metadata([149, 151, 0])
        assert rows[0]["path"] == "29.jpg"
        assert (rows[1]["path"], rows[1]["price"]) == ("x", 1)
        assert not rows[2].get("path")


def test_codes_can_be_added(index_kind: str, queries: Tensor) -> None:
    x = clustered(50, seed=1)
    ours, ready = made(index_kind, fitted("pq")), made(index_kind, fitted("pq"))
    ours.add(x)
    codes, lists = ready._encode(x)
    ready.add_codes(codes, lists=lists)
    assert torch.equal(ours.search(queries, 9).ids, ready.search(queries, 9).ids)
    with pytest.raises(InputError, match="expected codes of shape"):
        ready.add_codes(codes[:, :2], lists=lists)
    if lists is None:
        with pytest.raises(InputError, match=r"of kind .* need no lists"):
            ready.add_codes(codes, lists=torch.zeros(50).long())
        return
    with pytest.raises(InputError, match=r"codes must lie in 0\.\."):
        ready.add_codes(codes, lists=lists + 1000)
    with pytest.raises(InputError, match="50 codes need as many lists, got 3"):
        ready.add_codes(codes, lists=lists[:3])
    with pytest.raises(InputError, match=r"need lists=lists_of\(vectors\)"):
        ready.add_codes(codes)


# --- what is refused ----------------------------------------------------------


def test_bad_ids_are_refused(index: Any) -> None:
    x = clustered(2)
    for ids, message in (
        ([1, 1], "id .*1.* is given twice"),
        ([5, 900], "1 of 2 ids are in the index already, the first is .*5"),
        ([1000], "2 items need 2 ids, got 1"),
        ([-1, 3], r"ids must lie in 0\.\..* got -1"),
        ([0.5, 1.5], "ids must be whole numbers or strings, got float64"),
        (["a", "b"], "the ids of this index are numbers; got strings"),
        ("ab", "expected a sequence of ids, got the string 'ab'"),
        ([[1, 2]], "expected ids of shape"),
    ):
        with pytest.raises(InputError, match=message):
            index.add(x, ids)
    assert len(index) == 120


def test_bad_vectors_are_refused(index: Any, queries: Tensor) -> None:
    bad = queries.clone()
    bad[3, 2] = torch.nan
    for verb in (index.add, lambda x: index.search(x, 3)):
        with pytest.raises(InputError, match="1 of 9 rows hold NaN"):
            verb(bad)
        with pytest.raises(InputError, match=r"shape \(n, 8\), got \(9, 5\)"):
            verb(queries[:, :5])
        with pytest.raises(InputError, match="a NumPy array, got list"):
            verb(queries.tolist())
    for k in (0, -3, 2.0, True):
        with pytest.raises(InputError, match="k must be a whole number"):
            index.search(queries, k)
    with pytest.raises(InputError, match="metadata must be columns by name"):
        index.add(queries, metadata=[1] * 9)
    with pytest.raises(InputError, match="9 items need columns as long"):
        index.add(queries, metadata={"a": [1]})
    with pytest.raises(InputError, match="rerank=5 needs an index with a refiner"):
        index.search(queries, 1, rerank=5)
    assert len(index) == 120


def test_an_unfitted_quantizer_is_refused(index_kind: str) -> None:
    unfitted: Quantizer = ProductQuantizer(DIM, 2, 4)
    index = INDEXES[index_kind].of_size(unfitted, 4)
    assert index.learns
    with pytest.raises(NotFittedError):
        index.add(clustered(4))
    index.fit(clustered(50)).add(clustered(50))
    assert unfitted.fitted
    assert not index.learns
    assert len(index) == 50


def test_changed_codebooks_are_refused(index: Any, tmp_path: Path) -> None:
    index.coder.update(clustered(50, seed=6))
    with pytest.raises(InputError, match="ProductQuantizer changed since items were"):
        index.add(clustered(3))
    with pytest.raises(InputError, match="ProductQuantizer changed since items were"):
        index.save(tmp_path / "index")

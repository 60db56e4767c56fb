"""Filters: a search among some items is a search of an index of those items alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    block_tables_compiled,
)
from gradsnap.coders.quantizers import block_tables as tables_module
from gradsnap.coders.quantizers.block_tables import block_tables
from gradsnap.errors import InputError
from gradsnap.index import (
    ExhaustiveIndex,
    InvertedIndex,
    MultiIndex,
    fastscan,
    load_index,
    probing,
    scanning,
)
from gradsnap.index.segments import Segment
from tests.conftest import clustered, fitted

COUNT = 600
SHARES = [0.03, 0.5, 0.9]


def wide(dim: int = 16, books: int = 8) -> ProductQuantizer:
    """Codebooks of 256, made up."""
    quantizer = ProductQuantizer(dim, books, 256)
    generator = torch.Generator().manual_seed(1)
    shape = quantizer.codebooks.shape
    quantizer.codebooks.copy_(torch.randn(shape, generator=generator))
    quantizer.fitted.fill_(True)
    return quantizer


def chosen(share: float, count: int = COUNT) -> Tensor:
    generator = torch.Generator().manual_seed(int(100 * share))
    return torch.randperm(count, generator=generator)[: round(share * count)]


def same(one: Any, other: Any) -> bool:
    return torch.equal(one.ids, other.ids) and torch.equal(
        one.distances, other.distances
    )


@pytest.fixture(params=["exhaustive", "inverted", "removed"])
def index(request: pytest.FixtureRequest) -> Any:
    """Codes of eight bytes; the last kind has lost items, and is in two segments."""
    x = torch.randn(COUNT, 16, generator=torch.Generator().manual_seed(0))
    if request.param == "exhaustive":
        return ExhaustiveIndex(wide()).add(x)
    made = InvertedIndex(wide(), num_lists=9, probes=5).fit(x)
    if request.param == "removed":
        return made.add(x[:500]).add(x[500:]).remove(range(0, COUNT, 11))
    return made.add(x)


@pytest.fixture
def queries() -> Tensor:
    return torch.randn(12, 16, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("share", SHARES)
def test_a_filter_finds_what_all_results_hold_of_it(
    index: Any, share: float, queries: Tensor
) -> None:
    ids = chosen(share)
    ids = ids[[int(i) in index for i in ids]]
    among = set(ids.tolist())
    for some in (queries, queries[:1]):
        every = index.search(some, COUNT)
        found = index.search(some, 7, within=torch.cat([ids, ids[:5]]))
        assert same(found, index.search(some, 7, within=index.filter(ids)))
        rows = zip(every.ids.tolist(), every.distances.tolist(), strict=True)
        for row, (names, values) in enumerate(rows):
            wanted = [p for p in zip(names, values, strict=True) if p[0] in among][:7]
            got = [i for i in found.ids[row].tolist() if i >= 0]
            assert got == [name for name, _ in wanted]
            assert found.distances[row].tolist()[: len(got)] == [v for _, v in wanted]


@pytest.mark.parametrize("share", [1.0, *SHARES])
def test_plain_torch_and_the_kernels_agree(
    index: Any, share: float, queries: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.tensor([i for i in chosen(share).tolist() if i in index])
    given = {} if share == 1 else {"within": ids}
    ours = [index.search(some, 9, **given) for some in (queries, queries[:2])]
    monkeypatch.setattr(scanning, "kernel", lambda: None)
    plain = [index.search(some, 9, **given) for some in (queries, queries[:2])]
    assert all(map(same, ours, plain))


def test_long_runs_are_not_copied(index: Any, queries: Tensor) -> None:
    if not isinstance(index, ExhaustiveIndex):
        pytest.skip("lists are never copied")
    some = index.filter(range(100, 400))
    found = index.search(queries, 5, within=some)
    part = some.parts(index.items.segments)[0]
    assert part.runs is not None
    assert part.runs.tolist() == [[100, 400]]
    assert part._copied is None
    again = torch.arange(399, 99, -1)
    assert same(found, index.search(queries, 5, within=again))


@pytest.mark.parametrize("share", SHARES)
def test_fast_scan_with_a_filter_equals_the_plain_scan(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastscan, "LEAST_CODES", 100)
    index = ExhaustiveIndex(fitted("pq")).add(clustered(3000, seed=1))
    ids, queries = chosen(share, 3000), clustered(20, seed=4)
    fast = index.search(queries, 6, within=ids)
    index._fast = None
    assert same(fast, index.search(queries, 6, within=ids))


def test_a_filter_of_an_index_that_has_changed_is_refused(
    index: Any, queries: Tensor
) -> None:
    some = index.filter([1, 2, 3])
    assert len(some) == 3
    index.remove([2])
    with pytest.raises(InputError, match=r"make it again with index\.filter"):
        index.search(queries, 1, within=some)
    assert len(index.filter()) == len(index)


def test_unknown_ids_are_refused(index: Any, queries: Tensor) -> None:
    with pytest.raises(InputError, match=f"1 of 2 ids are not in the index.*{COUNT}"):
        index.search(queries, 1, within=[1, COUNT])


@pytest.mark.parametrize("spread", [1, 3, 50])
def test_ids_are_found_however_dense_they_are(spread: int) -> None:
    ids = torch.randperm(40, generator=torch.Generator().manual_seed(0)).numpy()
    ids = ids * spread
    segment = Segment(np.zeros((40, 1), np.uint8), ids=ids)
    assert (segment.inverse is None) == (spread == 50)
    asked = np.arange(0, 50 * spread)
    expected = [list(ids).index(i) if i in ids else -1 for i in asked]
    assert segment.find(asked).tolist() == expected


# --- the parts of a fast search ------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 100])
def test_the_smallest_are_those_of_a_stable_sort(count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(30, (9, 100), generator=generator).float()  # many ties
    expected = scores.argsort(dim=1, stable=True)[:, :count]
    assert torch.equal(probing.smallest(scores, count), expected)


@pytest.mark.parametrize("dim", [16, 19])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tables_of_few_queries(
    dim: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    quantizer = ProductQuantizer(dim, 3, 16).to(dtype)
    x = torch.randn(40, dim, generator=generator, dtype=dtype)
    quantizer.fit(x)
    few, many = quantizer.tables(x[:3]).entries, quantizer.tables(x).entries[:3]
    torch.testing.assert_close(few, many, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(tables_module, "kernels", lambda name: None)
    assert torch.equal(block_tables(*quantizer._in_blocks(x[:3])), few)


def test_a_multi_index_may_rotate_first(tmp_path: Any) -> None:
    x = clustered(400, seed=1)
    coarse = OptimizedProductQuantizer(x.shape[1], 2, 4)
    index = MultiIndex(fitted("pq"), coarse=coarse, probes=5).fit(x).add(x)
    assert bool(coarse.fitted)
    index.save(tmp_path / "index")
    again: Any = load_index(tmp_path / "index")
    assert same(again.search(x[:5], 6), index.search(x[:5], 6))
    assert torch.equal(again.lists_of(x), index.lists_of(x))


# --- one call for all -----------------------------------------------------------


def whole(kind: str) -> ExhaustiveIndex:
    """Items of which many are as near as others, to the bit."""
    x = clustered(900, dim=16, seed=1)
    x[600:] = x[:300]
    made: dict[str, Any] = {
        "bytes": wide,
        "halves": lambda: fitted("pq", dim=16, num_codebooks=8),
        "uneven": lambda: fitted("pq", dim=16, num_codebooks=3),
        "rotated": lambda: fitted("opq", dim=16, num_codebooks=4),
    }
    index = ExhaustiveIndex(made[kind.split(",")[0]]())
    if "names" in kind:
        return index.add(x, ids=[f"{i:03}" for i in range(len(x))])
    if "segments" in kind:
        return index.add(x[:800]).add(x[800:])
    if "removed" in kind:
        return index.add(x).remove(range(1, 900, 7))
    return index.add(x, ids=torch.randperm(900, generator=torch.Generator()) + 5)


def outcome(found: Any) -> tuple[Any, Any]:
    ids = found.ids.tolist() if isinstance(found.ids, Tensor) else found.ids
    return ids, found.distances.tolist()


KINDS = ["bytes", "halves", "uneven", "rotated", "bytes, names"]
KINDS += ["bytes, segments", "halves, segments", "bytes, removed", "halves, removed"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [0, 4, 90, 450, 890])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_a_prepared_filter_gives_what_ids_give(
    kind: str, kept: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries = whole(kind), clustered(3, dim=16, seed=2)
    every = index.select()
    ids = [every[i] for i in range(0, len(every), max(1, 900 // max(1, kept)))][:kept]
    given: Any = ids if "names" in kind else np.array(ids, dtype=np.int64)
    prepared = index.filter(given)
    at_once = index._at_once(queries, k, prepared.parts(index.items.segments), None)
    scattered = 0 < kept < 890 and "segments" not in kind
    assert not scattered or at_once is not None
    ours = outcome(index.search(queries, k, within=prepared))
    assert ours == outcome(index.search(queries, k, within=given))
    monkeypatch.setattr(ExhaustiveIndex, "_at_once", lambda *args: None)
    assert ours == outcome(index.search(queries, k, within=prepared))
    monkeypatch.setattr(scanning, "kernel", lambda: None)
    assert ours == outcome(index.search(queries, k, within=prepared))


def test_a_prepared_filter_follows_the_codebooks() -> None:
    index, query = whole("bytes"), clustered(1, dim=16, seed=2)
    some = index.filter(index.select()[::50])
    before = index.search(query, 5, within=some)
    index.coder.codebooks.mul_(1.5)  # type: ignore[operator]
    now = index.search(query, 5, within=some)
    assert not same(before, now)
    assert same(now, index.search(query.double().numpy(), 5, within=some))


@pytest.mark.parametrize("value", [torch.nan, 1e30])
def test_a_prepared_filter_refuses_what_cannot_be_compared(value: float) -> None:
    index, query = whole("bytes"), clustered(1, dim=16, seed=2)
    query[0, 3] = value
    with pytest.raises(InputError):
        index.search(query, 5, within=index.filter(index.select()[::50]))


@pytest.mark.parametrize("dim", [5, 16, 23])
def test_turned_codebooks_give_the_same_tables(dim: int) -> None:
    rows = torch.randn(3, 2 * dim).numpy()
    words = torch.randn(2, 40, dim)
    plain, turned = np.empty((3, 2, 40), np.float32), np.empty((3, 2, 40), np.float32)
    block_tables_compiled.block_tables(rows, words.numpy(), plain)
    ours = words.transpose(1, 2).contiguous().numpy()
    block_tables_compiled.turned_tables(rows, ours, turned)
    assert np.array_equal(plain, turned)

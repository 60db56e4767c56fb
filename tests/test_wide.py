"""64 codes at once, one call for a query, marked ids: the answers of the other ways."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import InputError
from gradsnap.index import (
    ExhaustiveIndex,
    InvertedIndex,
    MultiIndex,
    filtered_compiled,
    lists,
    scanning,
)
from gradsnap.index.filtering import Marked
from gradsnap.index.lists import ListedIndex
from gradsnap.index.shuffles_compiled import limit_of, lows_of, scale_of, shrink
from gradsnap.index.wide_compiled import (
    BOOKS,
    ENTRIES,
    HAS_BYTES,
    HAS_WIDE,
    WIDE,
    near,
    near_plainly,
)
from gradsnap.index.wide_lists_compiled import can_scan_wide
from tests.test_filters import same, wide

DIM, ITEMS, LISTS = 16, 3000, 12

needs_wide = pytest.mark.skipif(not HAS_WIDE, reason="no AVX-512")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def drawn_codes(count: int, books: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, ENTRIES, (count, books), dtype=np.uint8)


# --- 64 codes at once -----------------------------------------------------------


@pytest.mark.parametrize("books", BOOKS)
def test_instructions_do_what_the_plain_loop_does(books: int) -> None:
    rng, codes = np.random.default_rng(1), drawn_codes(200, books)
    for most in (2, 30, 256):
        small = rng.integers(0, most, (16, ENTRIES), dtype=np.uint8)
        for at in (0, 1, 63, len(codes) - WIDE):
            for limit in (0, 5, 100, 225, 254, 255):
                mask = near(codes, at, small, limit)
                assert mask == near_plainly(codes, at, small, limit)


@pytest.mark.parametrize("books", BOOKS)
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_nothing_as_near_as_the_limit_is_left_out(
    shift: float, scale: float, books: int
) -> None:
    rng, codes = np.random.default_rng(2), drawn_codes(4 * WIDE, books)
    table = (scale * (rng.random((books, ENTRIES)) ** 4 + shift)).astype(np.float32)
    sums = table[0, codes[:, 0]]
    for m in range(1, books):
        sums = sums + table[m, codes[:, m]]  # in the order of a scan
    lows, small = np.empty(books, np.float32), np.zeros(table.shape, np.uint8)
    low = lows_of(table, lows)
    for worst in np.sort(sums)[::16]:
        factor = scale_of(worst, low)
        shrink(table, lows, factor, small)
        limit = limit_of(worst, low, factor)
        for at in range(0, len(codes), WIDE):
            mask = int(near(codes, at, small, limit))
            found = np.array([mask >> i & 1 for i in range(WIDE)], dtype=bool)
            assert found[sums[at : at + WIDE] <= worst].all()


@pytest.mark.parametrize(("books", "size"), [(4, 256), (8, 256), (16, 256), (8, 64)])
@pytest.mark.parametrize("negative", [False, True])
def test_a_batch_finds_the_same_alone_and_in_groups(
    negative, books, size, monkeypatch
) -> None:
    """However many queries there are, and for tables of inner products too."""
    rows = drawn(ITEMS, DIM)
    rows[ITEMS // 2 :] = rows[: ITEMS - ITEMS // 2]  # ties
    coder = ProductQuantizer(DIM, books, size).fit(rows)
    index = ExhaustiveIndex(coder)
    index.add(rows)
    queries, groups = drawn(40, DIM, seed=1), []
    if negative:
        tables = coder.tables(queries)
        shifted = tables._replace(entries=tables.entries - 10)
        monkeypatch.setattr(type(coder), "_tables", lambda self, q: shifted)
    scan_group = scanning._scan_group

    def noted(*given: Any) -> None:
        groups.append(1)
        scan_group(*given)

    monkeypatch.setattr(scanning, "_scan_group", noted)
    alone = index.search(queries, k=50)
    assert bool(groups) == (negative or not HAS_BYTES)
    monkeypatch.setattr("gradsnap.index.wide_compiled.HAS_BYTES", False)
    shared = index.search(queries, k=50)
    assert groups
    assert torch.equal(alone.ids, shared.ids)
    assert torch.equal(alone.distances, shared.distances)


def test_what_registers_cannot_look_up_is_scanned_otherwise() -> None:
    tables, no_bias = np.ones((1, 8, ENTRIES), np.float32), np.empty(0, np.float32)
    codes = drawn_codes(WIDE, 8)
    assert can_scan_wide(codes, no_bias, tables)
    assert can_scan_wide(codes, no_bias, tables[..., :64].copy())
    assert not can_scan_wide(codes[1:], no_bias, tables)
    assert not can_scan_wide(codes[:, :5].copy(), no_bias, tables[:, :5].copy())
    assert not can_scan_wide(codes.astype(np.uint16), no_bias, tables)
    assert not can_scan_wide(codes, np.ones(WIDE, np.float32), tables)
    assert not can_scan_wide(codes, no_bias, np.ones((2, 8, ENTRIES), np.float32))
    tables[0, 7, 255] = -1e-6
    assert not can_scan_wide(codes, no_bias, tables)


def listed(kind: str, books: int = 8) -> ListedIndex:
    """Lists of which some are empty; items in one segment or two, some removed."""
    x = drawn(ITEMS, DIM)
    x[2000:2300] = x[1]  # equal distances, ordered by id
    made: ListedIndex
    if kind == "multi":
        made = MultiIndex(wide(books=books), codewords=8, probes=20).fit(x)
    else:
        centroids = torch.cat(
            [drawn(LISTS - 3, DIM, seed=1), torch.full((3, DIM), 9.0)]
        )
        made = InvertedIndex(wide(books=books), centroids=centroids, probes=LISTS - 1)
    if kind == "segments":
        made.add(x[:2400]).add(x[2400:])
    else:
        made.add(x)
    if kind != "whole":
        made.remove(torch.arange(0, ITEMS, 7))
    return made


@needs_wide
@pytest.mark.parametrize("books", BOOKS)
@pytest.mark.parametrize("kind", ["whole", "removed", "segments", "multi"])
def test_results_are_those_of_the_other_scans(
    kind: str, books: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries = listed(kind, books), drawn(20, DIM, seed=2)
    some = [place for place in range(1, ITEMS, 2) if place % 7]

    def results() -> list[Any]:
        found = [index.search(queries, 10), index.search(queries[:3], 400)]
        found += [index.search(one[None], 10) for one in queries]
        return [*found, index.search(queries[:1], 9, within=some)]

    ours = results()
    for module in (scanning, lists):
        monkeypatch.setattr(module, "list_kernel", lambda: None)
    assert all(map(same, ours, results()))


# --- one call for a query -------------------------------------------------------


@pytest.mark.parametrize("k", [1, 10, 2000, ITEMS, ITEMS + 50])
@pytest.mark.parametrize("kind", ["whole", "removed", "segments", "multi"])
def test_one_call_is_the_search_in_steps(
    kind: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries = listed(kind), drawn(3, DIM, seed=2)
    index.probes = 2  # fewer items than k: the rest is padding
    ours = index.search(queries, k)
    assert int(ours.ids.min()) == (-1 if k >= 2000 else ours.ids.min())
    monkeypatch.setattr(ListedIndex, "_at_once", lambda *given: None)
    assert same(ours, index.search(queries, k))


@pytest.mark.parametrize(
    "given",
    [
        lambda x: x.double(),
        lambda x: x.numpy(),
        lambda x: x.T.contiguous().T,
        lambda x: torch.stack([x, x], dim=2)[..., 0],
        lambda x: x.clone().requires_grad_(),
    ],
    ids=["float64", "NumPy", "columns", "every second", "with gradient"],
)
def test_queries_of_any_form_find_the_same(given: Any) -> None:
    index, queries = listed("removed"), drawn(3, DIM, seed=2)
    assert same(index.search(given(queries), 10), index.search(queries, 10))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
def test_what_cannot_be_compared_is_refused(value: float) -> None:
    index, queries = listed("whole"), drawn(2, DIM, seed=2)
    index.search(queries, 3)
    queries[1, 3] = value
    with pytest.raises(InputError, match="1 of 2 rows hold NaN"):
        index.search(queries, 3)


@pytest.mark.parametrize("k", [0, True, 2.0])
def test_k_is_checked_as_ever(k: Any) -> None:
    with pytest.raises(InputError, match="k must be"):
        listed("whole").search(drawn(1, DIM), k)


def test_what_is_prepared_follows_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    index, query = listed("whole"), drawn(1, DIM, seed=2)
    index.probes = 2

    def steps() -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(ListedIndex, "_together", lambda self, rows: None)
            return index.search(query, 5)

    def changed(before: Any) -> Any:
        now = index.search(query, 5)
        assert same(now, steps())
        assert not same(now, before)
        return now

    found = index.search(query, 5)
    index.remove(found.ids[0, :2])
    found = changed(found)
    index.add(query)
    found = changed(found)
    index.compact()
    assert same(index.search(query, 5), found)
    index.centroids = index.centroids.flip(0)  # type: ignore[attr-defined]
    found = changed(found)
    index.coder.codebooks.mul_(1.5)
    found = changed(found)
    index.coder.codebooks = index.coder.codebooks / 2
    changed(found)


def test_threads_share_what_is_prepared() -> None:
    index, queries = listed("removed"), drawn(40, DIM, seed=2)
    alone = [index.search(one[None], 10) for one in queries]
    index._ready = None
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: index.search(one[None], 10), queries))
    assert all(map(same, found, alone))


# --- marked ids -----------------------------------------------------------------


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 1.0])
def test_marked_ids_find_what_a_filter_finds(share: float) -> None:
    index, queries = listed("whole"), drawn(3, DIM, seed=2)
    order = torch.randperm(ITEMS, generator=torch.Generator().manual_seed(3))
    ids = order[: round(share * ITEMS)]
    ids = torch.cat([ids, ids[:5]])  # some twice, none in order
    assert isinstance(index.items.allowed(ids)[0], Marked)
    prepared = index.filter(ids)
    for asked in (queries, queries[:1], drawn(20, DIM, seed=4)):
        found = index.search(asked, 10, within=ids)
        assert same(found, index.search(asked, 10, within=prepared))
    assert len(prepared) == round(share * ITEMS)


def test_no_ids_at_all_find_nothing() -> None:
    none = torch.empty(0, dtype=torch.int64)
    assert int(listed("whole").search(drawn(1, DIM), 3, within=none).ids.max()) == -1


@pytest.mark.parametrize("wrong", [-1, ITEMS, 2**62, -(2**62)])
def test_ids_that_are_not_there_are_named(wrong: int) -> None:
    with pytest.raises(InputError, match="ids"):
        listed("whole").search(drawn(1, DIM), 3, within=torch.tensor([1, wrong]))


def test_removed_ids_are_refused() -> None:
    with pytest.raises(InputError, match="the first is 7"):
        listed("removed").search(drawn(1, DIM), 3, within=torch.tensor([1, 7]))


def test_a_filter_keeps_the_ids_it_was_made_of() -> None:
    index, ids = listed("whole"), torch.arange(0, ITEMS, 3)
    some = index.filter(ids)
    before = index.search(drawn(1, DIM), 5, within=some)
    other = index.filter(ids)
    ids.zero_()
    assert same(before, index.search(drawn(1, DIM), 5, within=other))


def test_marks_are_counted_once() -> None:
    marks = np.zeros(2, np.uint64)
    ids = np.array([70, 5, 70, 64, 5, 127])
    assert filtered_compiled.mark(ids, 0, 128, marks) == 4
    bits = [int(marks[i // 64]) >> (i % 64) & 1 for i in range(128)]
    assert [i for i, bit in enumerate(bits) if bit] == [5, 64, 70, 127]
    assert filtered_compiled.mark(ids, 0, 127, np.zeros(2, np.uint64)) == -1


# --- more than a cache holds ----------------------------------------------------


@pytest.mark.parametrize("removed", [False, True])
def test_codes_read_in_parts_give_the_same(
    removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = drawn(ITEMS, DIM)
    index = ExhaustiveIndex(wide()).add(x)
    if removed:
        index.remove([7, 500])
    queries = drawn(20, DIM, seed=2)
    whole = index.search(queries, 30)
    monkeypatch.setattr(scanning, "LARGE", 0)
    monkeypatch.setattr(scanning, "CACHED", 700)
    columns = next(iter(index.items.columns()))
    parts = list(scanning._parts(columns.codes, np.array([[0, ITEMS]])))
    assert [part.tolist()[0] for part in parts][-1] == [2800, ITEMS]
    assert len(parts) == 5
    assert same(whole, index.search(queries, 30))

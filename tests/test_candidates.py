"""The k smallest sums: kernel and folds against brute force, on nasty tables."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradsnap import compiled
from gradsnap.coders.quantizers import Candidates, ProductQuantizer, candidates
from gradsnap.coders.quantizers.candidates import (
    compiled_sums,
    folded_sums,
    smallest_sums,
)
from gradsnap.coders.tables import sums_of_all, sums_of_own
from tests import reference
from tests.conftest import clustered, every_code, needs_numba

Search = Callable[[Tensor, int], Candidates]

SEARCHES = [
    pytest.param(compiled_sums, id="compiled", marks=needs_numba),
    pytest.param(folded_sums, id="folded"),
]
every_search = pytest.mark.parametrize("search", SEARCHES)


def brute_force(tables: Tensor, k: int) -> Tensor:
    """The k smallest sums (n, k), each added in the order of the codebooks."""
    _, num_codebooks, size = tables.shape
    codes = every_code(num_codebooks, size)
    total = tables[:, 0, codes[:, 0]]
    for m in range(1, num_codebooks):
        total = total + tables[:, m, codes[:, m]]
    return total.sort(dim=1).values[:, :k]


def sums_of(tables: Tensor, codes: Tensor) -> Tensor:
    """The sums (n, k) of the entries of codes (n, k, M), in the order of codebooks."""
    total = tables[:, 0].gather(1, codes[..., 0])
    for m in range(1, tables.shape[1]):
        total = total + tables[:, m].gather(1, codes[..., m])
    return total


@pytest.mark.parametrize("num_codebooks", [1, 2, 4, 8, 16])
def test_sums_are_added_in_the_order_of_the_codebooks(num_codebooks: int) -> None:
    tables = torch.rand(9, num_codebooks, 16, generator=torch.Generator())
    size = (9, 30, num_codebooks)
    codes = torch.randint(16, size, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sums_of_own(tables, codes), sums_of(tables, codes))
    alone = [sums_of_all(t[None], c)[0] for t, c in zip(tables, codes, strict=True)]
    assert torch.equal(torch.stack(alone), sums_of(tables, codes))


def assert_exact(tables: Tensor, k: int, search: Search) -> None:
    """Everything ``smallest_sums`` promises, the sums within rounding."""
    before = tables.clone()
    distances, codes = search(tables, k)
    assert torch.equal(tables, before)
    assert distances.shape == (len(tables), k)
    assert codes.shape == (len(tables), k, tables.shape[1])
    assert codes.dtype == torch.int64
    assert torch.equal(distances, sums_of(tables, codes))
    assert (distances.diff(dim=1) >= 0).all()
    size = tables.shape[2]
    places = [codes[..., m] * size**m for m in range(tables.shape[1])]
    one_number = torch.stack(places).sum(dim=0).sort(dim=1).values  # (n, k)
    assert (one_number.diff(dim=1) > 0).all(), "a code twice in a row"
    level = tables.abs().amax(dim=(1, 2))[:, None] * tables.shape[1]
    slip = 4 * torch.finfo(tables.dtype).eps * level
    assert ((distances - brute_force(tables, k)).abs() <= slip).all()


def random_tables(rows: int, m: int, size: int, seed: int, style: str) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, m, size)
    if style == "integers":  # exact sums and many ties
        return torch.randint(0, 5, shape, generator=generator).double()
    tables = torch.rand(shape, generator=generator, dtype=torch.float64)
    if style == "offset":
        return tables + 100 * torch.rand(rows, m, 1, generator=generator)
    if style == "skewed":  # a few codewords near, the others far away
        return tables.pow(6) * 1000
    return tables


def sizes() -> Iterator[tuple[int, int]]:
    """M from 1 to 6 and K from 2 to 64 with at most 4,096 codes."""
    for m in range(1, 7):
        for bits in range(1, 7):
            if m * bits <= 12:
                yield m, 2**bits


SIZES = list(sizes())
STYLES = ["uniform", "integers", "offset", "skewed"]


def test_sizes_cover_what_is_promised() -> None:
    assert {m for m, _ in SIZES} == {1, 2, 3, 4, 5, 6}
    assert {size for _, size in SIZES} == {2, 4, 8, 16, 32, 64}


@every_search
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    size=st.sampled_from(SIZES),
    share=st.floats(0, 1),
    rows=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    style=st.sampled_from(STYLES),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_equals_brute_force(
    search: Search,
    size: tuple[int, int],
    share: float,
    rows: int,
    seed: int,
    style: str,
    dtype: torch.dtype,
) -> None:
    m, codewords = size
    k = 1 + int(share * (codewords**m - 1))
    tables = random_tables(rows, m, codewords, seed, style).to(dtype)
    assert_exact(tables, k, search)


@every_search
@pytest.mark.parametrize(("m", "size"), SIZES)
def test_all_there_are(search: Search, m: int, size: int) -> None:
    assert_exact(random_tables(2, m, size, 0, "integers"), size**m, search)
    assert_exact(random_tables(2, m, size, 0, "uniform"), size**m, search)


@every_search
def test_the_loop_in_the_reference(search: Search) -> None:
    tables = random_tables(4, 3, 4, seed=1, style="uniform")
    distances, codes = search(tables, 20)
    for row in range(4):
        expected = reference.smallest_sums(tables[row].numpy(), 20)
        assert [tuple(code) for code in codes[row].tolist()] == [c for _, c in expected]
        assert distances[row].tolist() == [total for total, _ in expected]


@every_search
@pytest.mark.parametrize("k", [1, 2, 150, 1000])
def test_ties_everywhere(search: Search, k: int) -> None:
    assert_exact(torch.zeros(3, 4, 16), k, search)
    assert_exact(torch.ones(3, 2, 64, dtype=torch.float64), k, search)
    one_apart = torch.zeros(2, 3, 32)
    one_apart[:, 1, 7] = -1
    assert_exact(one_apart, k, search)


@every_search
def test_negative_entries(search: Search) -> None:
    tables = random_tables(5, 3, 16, seed=2, style="uniform") - 0.5
    assert_exact(tables, 200, search)


@every_search
@pytest.mark.parametrize("k", [1, 60, 300])
def test_rows_of_wildly_different_scale(search: Search, k: int) -> None:
    """The kernel guesses from the row before; a wrong guess may only cost time."""
    tables = random_tables(64, 3, 16, seed=3, style="skewed").float()
    exponents = torch.randint(
        -12, 12, (64,), generator=torch.Generator().manual_seed(4)
    )
    scaled = tables * 10.0 ** exponents[:, None, None]
    scaled[::7] = 0
    scaled[3::11] = 1e-30
    assert_exact(scaled, k, search)
    alone = [search(row[None], k).distances[0] for row in scaled]
    torch.testing.assert_close(search(scaled, k).distances, torch.stack(alone))


@every_search
def test_outliers_within_a_row(search: Search) -> None:
    """Most sums fall into one bin of the kernel's histogram."""
    tables = random_tables(6, 3, 16, seed=5, style="uniform")
    tables[:, :, 3] = 1e12
    tables[1::2, 1, 5] = -1e12
    assert_exact(tables, 700, search)


@every_search
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_leaves_the_order(search: Search, dtype: torch.dtype) -> None:
    """Large offsets: gaps that are summed apart round otherwise than the entries."""
    generator = torch.Generator().manual_seed(0)
    tables = torch.rand(100, 4, 64, generator=generator, dtype=dtype) + 1000
    distances, codes = search(tables, 150)
    assert (distances.diff(dim=1) >= 0).all()
    assert torch.equal(distances, sums_of(tables, codes))


@every_search
def test_large_codebooks(search: Search) -> None:
    """K = 1024 and k = 150."""
    generator = torch.Generator().manual_seed(6)
    tables = torch.rand(4, 2, 1024, generator=generator, dtype=torch.float64)
    distances, _ = search(tables, 150)
    pairs = (tables[:, 0, :, None] + tables[:, 1, None]).flatten(1)
    torch.testing.assert_close(distances, pairs.topk(150, largest=False).values)


@needs_numba
@pytest.mark.parametrize(
    ("m", "size", "k"), [(4, 256, 150), (8, 256, 150), (3, 1024, 150), (16, 16, 500)]
)
@pytest.mark.parametrize("style", STYLES)
def test_kernel_and_folds_agree(m: int, size: int, k: int, style: str) -> None:
    """At 32 to 64 bits, where no brute force goes."""
    tables = random_tables(12, m, size, seed=7, style=style)
    fast, slow = compiled_sums(tables, k), folded_sums(tables, k)
    torch.testing.assert_close(fast.distances, slow.distances, rtol=1e-12, atol=1e-12)
    if style != "integers":  # without ties the codes are equal too
        assert torch.equal(fast.codes, slow.codes)


# --- the certificate of the folds ---------------------------------------------


def crowded_tables(rows: int) -> Tensor:
    """All of the nearest codes differ in one codebook only: short lists miss some."""
    tables = torch.full((rows, 3, 256), 1000.0, dtype=torch.float64)
    tables[:, :, 0] = 0
    near = torch.rand(rows, 200, generator=torch.Generator().manual_seed(8))
    tables[:, 1, 1:201] = near.double()
    return tables


@every_search
def test_short_lists_that_do_not_suffice(search: Search) -> None:
    tables = crowded_tables(5)
    distances, codes = search(tables, 150)
    expected = tables[:, 1].sort(dim=1).values[:, :150]
    assert torch.equal(distances, expected)
    assert (codes[..., 0] == 0).all()
    assert (codes[..., 2] == 0).all()


def test_only_rows_that_fail_the_certificate_are_folded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folded = []
    fold_all = candidates._fold_all

    def counted(values: Tensor, words: Tensor, k: int) -> tuple[Tensor, Tensor]:
        folded.append(tuple(values.shape))
        return fold_all(values, words, k)

    monkeypatch.setattr(candidates, "_fold_all", counted)
    easy = random_tables(5, 3, 256, seed=9, style="uniform")
    mixed = torch.cat([crowded_tables(2), easy, crowded_tables(1)])
    distances, _ = folded_sums(mixed, 150)
    assert folded == [(8, 3, candidates.SHORT), (3, 3, 150)]
    monkeypatch.setattr(candidates, "SHORT", 256)
    torch.testing.assert_close(distances, folded_sums(mixed, 150).distances)


def test_certificate_on_ties_at_the_edge() -> None:
    """The first codeword left out ties with the k-th sum: any of them will do."""
    tables = torch.zeros(2, 2, 128, dtype=torch.float64)
    tables[:, 0, 1:] = 1
    tables[:, 1, 1:] = 2
    assert_exact(tables, 100, folded_sums)
    assert_exact(tables, 128, folded_sums)


# --- dispatch -----------------------------------------------------------------


@needs_numba
def test_the_kernel_runs_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for name in ("compiled_sums", "folded_sums"):
        search = getattr(candidates, name)

        def noted(
            tables: Tensor, k: int, name: str = name, search: Search = search
        ) -> Candidates:
            called.append(name)
            return search(tables, k)

        monkeypatch.setattr(candidates, name, noted)
    tables = random_tables(3, 2, 4, seed=0, style="uniform")
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        smallest_sums(tables.to(dtype), 3)
    assert called == ["compiled_sums", "compiled_sums", "folded_sums"]


@pytest.fixture
def no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if numba had never been installed."""
    monkeypatch.setattr(compiled, "installed", lambda: False)


@pytest.mark.usefixtures("no_numba")
def test_without_numba_the_folds_run() -> None:
    assert candidates._kernels() is None
    assert_exact(random_tables(3, 3, 8, 0, "uniform"), 40, smallest_sums)
    x = clustered(50)
    quantizer = ProductQuantizer(dim=8, num_codebooks=4, codebook_size=8).fit(x)
    tables = quantizer.tables(x).entries
    found = quantizer.candidates(x, 30).distances
    torch.testing.assert_close(found, brute_force(tables, 30))


@needs_numba
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_the_rows(threads: int) -> None:
    tables = random_tables(200, 3, 16, seed=11, style="uniform")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = compiled_sums(tables, 50)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found.distances, brute_force(tables, 50))


@every_search
def test_no_rows_and_strided_rows(search: Search) -> None:
    assert search(torch.zeros(0, 3, 8), 5).codes.shape == (0, 5, 3)
    tables = random_tables(6, 3, 16, seed=12, style="uniform")
    strided = torch.stack([tables, -tables])[0].transpose(0, 1).contiguous()
    assert_exact(strided.transpose(0, 1), 100, search)


@needs_numba
def test_numpy_and_torch_see_the_same_numbers() -> None:
    tables = random_tables(3, 2, 8, seed=13, style="uniform")
    found = compiled_sums(tables, 10)
    for row, table in enumerate(tables.numpy()):
        pairs = np.sort((table[0][:, None] + table[1]).ravel())[:10]
        np.testing.assert_allclose(found.distances[row].numpy(), pairs)

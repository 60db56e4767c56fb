"""What is true of every quantizer, beyond what is true of every coder."""

import copy
import functools
import logging
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import QUANTIZERS, Quantizer
from gradsnap.errors import InputError, NotFittedError
from tests.conftest import (
    CODEBOOK_SIZE,
    DIM,
    NUM_CODEBOOKS,
    clustered,
    every_code,
    fitted,
    gaussian,
    variance,
)

FEW = 60
SMALL = {"dim": DIM, "num_codebooks": 2, "codebook_size": 8}
"""Rows and sizes for tests that fit more than once."""

KIND_OF = {known: kind for kind, known in QUANTIZERS.items()}


def made(kind: str, **changes: float) -> Quantizer:
    """A small quantizer that takes few iterations where it has such an argument."""
    config = QUANTIZERS[kind](**SMALL).config()
    effort = {"iterations": 4} if "iterations" in config else {}
    return QUANTIZERS[kind](**(SMALL | effort | changes))  # type: ignore[arg-type]


@functools.cache
def _small(kind: str) -> Quantizer:
    return made(kind).fit(clustered(FEW))


def small(kind: str) -> Quantizer:
    """What ``made(kind).fit(clustered(FEW))`` gives, fitted only once."""
    return copy.deepcopy(_small(kind))


def some_codes(quantizer: Quantizer, rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    size = (rows, quantizer.num_codebooks)
    return torch.randint(quantizer.codebook_size, size, generator=generator)


def test_registry_holds_the_six_of_the_design() -> None:
    assert list(QUANTIZERS) == ["pq", "opq", "rvq", "grvq", "aq", "cq"]
    assert len(set(QUANTIZERS.values())) == 6


# --- fit ----------------------------------------------------------------------


def test_seed_is_used(kind: str) -> None:
    other = made(kind, seed=1).fit(clustered(FEW))
    assert not torch.equal(other.codebooks, small(kind).codebooks)


def test_input_is_not_modified(quantizer: Quantizer, x: Tensor) -> None:
    before, codes = x.clone(), some_codes(quantizer, 20)
    codes_before = codes.clone()
    state = torch.get_rng_state()
    quantizer.candidates(x, 20)
    quantizer.inner_products(x)
    quantizer.decode(codes)
    quantizer.error(x)
    quantizer.update(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, before)
    assert torch.equal(codes, codes_before)


def test_decoding_hands_out_no_part_of_the_codebooks(quantizer: Quantizer) -> None:
    before = quantizer.codebooks.clone()
    quantizer.decode(some_codes(quantizer, 5)).zero_()
    quantizer.cross_terms(some_codes(quantizer, 5)).clone().zero_()
    quantizer.inner_products(gaussian(5)).zero_()
    assert torch.equal(quantizer.codebooks, before)


def test_few_rows_are_warned_of_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="gradsnap"):
        made(kind).fit(gaussian(5))
    assert caplog.messages == ["5 rows for 8 codewords: some repeat"]
    caplog.clear()
    made(kind).fit(gaussian(8))
    assert caplog.messages == []


# --- codes --------------------------------------------------------------------


def test_codes_have_their_type_and_range(quantizer: Quantizer, x: Tensor) -> None:
    codes = quantizer.encode(x)
    assert codes.shape == (len(x), NUM_CODEBOOKS)
    assert codes.dtype == torch.uint8
    assert int(codes.max()) < CODEBOOK_SIZE
    assert len(codes.unique(dim=0)) > CODEBOOK_SIZE  # all codebooks take part
    found = quantizer.candidates(x, 7)
    assert found.codes.shape == (len(x), 7, NUM_CODEBOOKS)
    assert found.codes.dtype == torch.uint8
    assert int(found.codes.max()) < CODEBOOK_SIZE


def test_large_codebooks_have_wider_codes(kind: str) -> None:
    assert made(kind, codebook_size=256).code_dtype == torch.uint8
    quantizer = made(kind, num_codebooks=1, codebook_size=512).fit(clustered(40))
    codes = quantizer.encode(clustered(40))
    assert codes.dtype == torch.int32
    assert quantizer.error(clustered(40)) < 1e-3 * variance(clustered(40))


@pytest.mark.parametrize(
    ("num_codebooks", "codebook_size", "bits"),
    [(3, 16, 12), (4, 256, 32), (1, 2, 1), (8, 64, 48), (2, 1024, 20)],
)
def test_bits(kind: str, num_codebooks: int, codebook_size: int, bits: int) -> None:
    quantizer = made(kind, num_codebooks=num_codebooks, codebook_size=codebook_size)
    assert quantizer.bits == bits
    assert f"bits={bits}" in repr(quantizer)


def test_call_is_decode_of_encode_and_error_its_mean(
    quantizer: Quantizer, x: Tensor
) -> None:
    reconstruction = quantizer(x)
    assert torch.equal(reconstruction, quantizer.decode(quantizer.encode(x)))
    assert reconstruction.shape == x.shape
    by_hand = [
        sum((a - b) ** 2 for a, b in zip(row, other, strict=True))
        for row, other in zip(x.tolist(), reconstruction.tolist(), strict=True)
    ]
    assert quantizer.error(x) == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-5)


def test_decode_takes_any_integer_type(quantizer: Quantizer) -> None:
    codes = some_codes(quantizer, 20)
    expected = quantizer.decode(codes)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        assert torch.equal(quantizer.decode(codes.to(dtype)), expected)


def test_reconstructions_are_nearly_stable(quantizer: Quantizer, x: Tensor) -> None:
    """Exact encoders give back the same; a local search may miss a few."""
    reconstruction = quantizer(x)
    assert quantizer.error(reconstruction) < 0.05 * quantizer.error(x)


def test_error_is_small_on_clusters(quantizer: Quantizer, x: Tensor) -> None:
    assert quantizer.error(x) < 0.06 * variance(x)
    unseen = clustered(ROWS_UNSEEN, seed=3)
    assert quantizer.error(unseen) < 0.1 * variance(unseen)


ROWS_UNSEEN = 500


def test_more_codebooks_are_never_worse(kind: str) -> None:
    x = clustered(FEW)
    more = made(kind, num_codebooks=4).fit(x).error(x)
    fewer = made(kind, num_codebooks=1).fit(x).error(x)
    assert more <= small(kind).error(x) <= fewer
    assert more < 0.6 * fewer


def test_larger_codebooks_are_never_worse(kind: str) -> None:
    x = clustered(FEW)
    larger = made(kind, codebook_size=32).fit(x).error(x)
    smaller = made(kind, codebook_size=2).fit(x).error(x)
    assert larger <= small(kind).error(x) <= smaller
    assert larger < 0.3 * smaller


def test_a_row_is_encoded_alone(quantizer: Quantizer) -> None:
    x = clustered(40, seed=2)
    together = quantizer.encode(x)
    alone = [quantizer.encode(row[None])[0] for row in x]
    assert torch.equal(together, torch.stack(alone))
    distances = quantizer.candidates(x, 30).distances
    each = [quantizer.candidates(row[None], 30).distances[0] for row in x]
    torch.testing.assert_close(distances, torch.stack(each), rtol=1e-4, atol=1e-4)


def test_many_rows_are_cut_without_seams(
    quantizer: Quantizer, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of a few rows give what one chunk gives."""
    codes, found = quantizer.encode(x), quantizer.candidates(x, 20)
    monkeypatch.setattr("gradsnap.coders.quantizers.quantizer.CHUNK_ENTRIES", 700)
    monkeypatch.setattr("gradsnap.coders.quantizers.kmeans.CHUNK_ENTRIES", 700)
    assert torch.equal(quantizer.encode(x), codes)
    again = quantizer.candidates(x, 20)
    torch.testing.assert_close(again.distances, found.distances, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("exponent", [-10, 10])
def test_scale_changes_nothing(kind: str, exponent: int) -> None:
    """A power of two is exact in floating point, so nothing but it may change."""
    x, scale = clustered(FEW), 2.0**exponent
    plain = small(kind)
    scaled = made(kind).fit(x * scale)
    assert scaled.error(x * scale) / scale**2 == pytest.approx(plain.error(x), rel=1e-3)
    updated = scaled.update(x * scale).error(x * scale) / scale**2
    assert updated == pytest.approx(plain.update(x).error(x), rel=1e-3)


# --- sizes --------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "num_codebooks"), [(10, 3), (3, 3)])
def test_dim_need_not_divide(kind: str, dim: int, num_codebooks: int) -> None:
    x = clustered(FEW, dim)
    quantizer = made(kind, dim=dim, num_codebooks=num_codebooks).fit(x)
    codes = quantizer.encode(x)
    assert codes.shape == (FEW, num_codebooks)
    reconstruction = quantizer.decode(codes)
    assert reconstruction.shape == (FEW, dim)
    assert quantizer.error(x) < 0.25 * variance(x)
    distances = quantizer.distances(x, codes) - quantizer.cross_terms(codes)
    assert distances.shape == (FEW, FEW)
    assert quantizer.update(x).error(x) < 0.25 * variance(x)


@pytest.mark.parametrize("num_codebooks", [1, 4])
def test_codebooks_of_two(kind: str, num_codebooks: int) -> None:
    x = clustered(FEW)
    quantizer = made(kind, num_codebooks=num_codebooks, codebook_size=2).fit(x)
    assert quantizer.bits == num_codebooks
    assert quantizer.encode(x).unique().tolist() == [0, 1]
    assert quantizer.error(x) < variance(x)
    found = quantizer.candidates(x, 2**num_codebooks)
    assert len(found.codes[0].unique(dim=0)) == 2**num_codebooks


def largest() -> tuple[list[Quantizer], list[InputError]]:
    """One codebook of 65,536 of every kind: those that can, and why others cannot."""
    taken, refused = [], []
    for kind in QUANTIZERS:
        try:
            taken.append(made(kind, dim=2, num_codebooks=1, codebook_size=65_536))
        except InputError as error:
            refused.append(error)
    return taken, refused


def test_codebooks_of_65536_are_taken_or_refused_with_advice() -> None:
    taken, refused = largest()
    assert [quantizer.bits for quantizer in taken] == [16, 16]
    assert len(refused) == 4
    advice = r"at most 16384 .*, got 1 \* 65536; use smaller .* or a ProductQuantizer"
    assert all(re.search(advice, str(error)) for error in refused)


@pytest.mark.slow
def test_codebooks_of_65536_work_where_taken() -> None:
    x = clustered(300, dim=2)
    for quantizer in largest()[0]:
        codes = quantizer.fit(x).encode(x)
        assert codes.dtype == torch.int32
        assert quantizer.error(x) < 1e-6
        assert quantizer.candidates(x[:3], 150).distances.shape == (3, 150)
        assert quantizer.update(x).error(x) < 1e-3


# --- rows that are few, equal or none -----------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(gaussian(5) * torch.eye(DIM)[0], id="five on a line"),
        pytest.param(gaussian(1), id="one"),
        pytest.param(torch.zeros(40, DIM), id="zeros"),
        pytest.param(torch.full((40, DIM), 1e6), id="equal and large"),
        pytest.param(torch.full((40, DIM), 1e-6), id="equal and small"),
        pytest.param(gaussian(4).repeat(20, 1), id="four distinct"),
    ],
)
def test_poor_rows_do_no_harm(kind: str, rows: Tensor) -> None:
    quantizer = made(kind).fit(rows)
    level = float(rows.square().sum(dim=1).mean())
    assert quantizer.error(rows) <= 1e-3 * level
    quantizer.update(rows).update(rows)
    assert quantizer.error(rows) <= 1e-3 * level
    assert all(bool(buffer.isfinite().all()) for buffer in quantizer.buffers())
    distances, codes = quantizer.candidates(rows, 64)
    assert distances.isfinite().all()
    assert all(len(row.unique(dim=0)) == 64 for row in codes)


def test_an_empty_batch_is_answered_with_nothing(quantizer: Quantizer) -> None:
    none = torch.zeros(0, DIM)
    codes = quantizer.encode(none)
    assert (codes.shape, codes.dtype) == ((0, NUM_CODEBOOKS), torch.uint8)
    found = quantizer.candidates(none, 5)
    assert found.distances.shape == (0, 5)
    assert found.codes.shape == (0, 5, NUM_CODEBOOKS)
    entries, offsets = quantizer.tables(none)
    assert entries.shape == (0, NUM_CODEBOOKS, CODEBOOK_SIZE)
    assert offsets.shape == (0,)
    assert quantizer.inner_products(none).shape == entries.shape
    assert quantizer.decode(codes).shape == (0, DIM)
    assert quantizer.cross_terms(codes).shape == (0,)
    assert quantizer.distances(none, codes).shape == (0, 0)
    assert quantizer.distances(gaussian(3), codes).shape == (3, 0)
    assert quantizer(none).shape == (0, DIM)


def test_an_empty_update_leaves_the_codes_alone(
    quantizer: Quantizer, x: Tensor
) -> None:
    codes, tables = quantizer.encode(x), quantizer.tables(x)
    terms = quantizer.cross_terms(codes)
    for _ in range(3):
        quantizer.update(torch.zeros(0, DIM))
    assert torch.equal(quantizer.encode(x), codes)
    assert torch.equal(quantizer.tables(x).entries, tables.entries)
    assert torch.equal(quantizer.cross_terms(codes), terms)


# --- what is refused ----------------------------------------------------------

VERBS: dict[str, Callable[[Quantizer], object]] = {
    "forward": lambda quantizer: quantizer(gaussian(3)),
    "update": lambda quantizer: quantizer.update(gaussian(3)),
    "candidates": lambda quantizer: quantizer.candidates(gaussian(3), 3),
    "inner_products": lambda quantizer: quantizer.inner_products(gaussian(3)),
    "error": lambda quantizer: quantizer.error(gaussian(3)),
    "decode": lambda quantizer: quantizer.decode(torch.zeros(3, 2, dtype=torch.uint8)),
}
"""What quantizers do beyond the contract of all coders."""


@pytest.mark.parametrize("verb", VERBS)
def test_unfitted_verbs_name_fit(kind: str, verb: str) -> None:
    with pytest.raises(NotFittedError, match="is not fitted yet: call fit"):
        VERBS[verb](made(kind))


def test_bad_rows_and_codes_are_refused_by_these_verbs_too(kind: str) -> None:
    quantizer, wide = small(kind), gaussian(3, dim=9)
    for verb in (
        quantizer.__call__,
        quantizer.update,
        quantizer.inner_products,
        quantizer.error,
        lambda x: quantizer.candidates(x, 3),
    ):
        with pytest.raises(InputError, match=r"shape \(n, 8\), got \(3, 9\)"):
            verb(wide)
        with pytest.raises(InputError, match="3 of 3 rows hold NaN"):
            verb(gaussian(3) * torch.nan)
    with pytest.raises(InputError, match=r"lie in 0\.\.7, got 0\.\.8"):
        quantizer.decode(torch.tensor([[0, 8]]))
    with pytest.raises(InputError, match="error needs at least one row"):
        quantizer.error(torch.zeros(0, DIM))


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("codebook_size", 3, "power of two, 2 to 65536, got 3"),
        ("codebook_size", 1, "power of two, 2 to 65536, got 1"),
        ("codebook_size", 0, "power of two, 2 to 65536, got 0"),
        ("codebook_size", -4, "power of two, 2 to 65536, got -4"),
        ("codebook_size", 131_072, "power of two, 2 to 65536, got 131072"),
        ("num_codebooks", 0, "num_codebooks must be at least 1, got 0"),
        ("dim", 0, "dim must be at least 1, got 0"),
        ("decay", 1.0, r"decay must lie in \[0, 1\), got 1.0"),
        ("decay", -0.1, r"decay must lie in \[0, 1\), got -0.1"),
        ("decay", float("nan"), r"decay must lie in \[0, 1\), got nan"),
    ],
)
def test_bad_sizes_are_refused_in_words(
    kind: str, argument: str, value: float, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        made(kind, **{argument: value})


@pytest.mark.parametrize("k", [0, -1, 16**3 + 1])
def test_bad_counts_are_refused_in_words(quantizer: Quantizer, k: int) -> None:
    with pytest.raises(InputError, match=rf"k must be 1 to 4096 .*, got {k}"):
        quantizer.candidates(gaussian(2), k)


# --- laws of the distance -----------------------------------------------------


def unary_norms(quantizer: Quantizer, codes: Tensor) -> Tensor:
    """Σ ‖cₘ‖² of each code: the distances of the zero query, without cross terms."""
    entries, offsets = quantizer.tables(torch.zeros(1, quantizer.dim))
    assert offsets.tolist() == [0.0]
    norms = entries[0].T.gather(0, codes)  # (n, M)
    return norms.sum(dim=1)


def test_distances_err_by_the_cross_term_alone(precise: Quantizer) -> None:
    queries, codes = 3 * gaussian(20, seed=1).double(), some_codes(precise, 50)
    reconstruction = precise.decode(codes)
    true_distance = (queries[:, None] - reconstruction).square().sum(dim=2)  # (q, n)
    true_cross = reconstruction.square().sum(dim=1) - unary_norms(precise, codes)
    slack = precise.cross_terms(codes) - true_cross
    expected = (true_distance + slack).clamp_min(0)
    torch.testing.assert_close(precise.distances(queries, codes), expected)


def test_inner_products_add_up_over_a_code(precise: Quantizer) -> None:
    x, codes = gaussian(20, seed=1).double(), some_codes(precise, 20)
    products = precise.inner_products(x)  # (n, M, K)
    assert products.shape == (20, NUM_CODEBOOKS, CODEBOOK_SIZE)
    picked = products.gather(2, codes[..., None])[..., 0].sum(dim=1)
    torch.testing.assert_close(picked, (x * precise.decode(codes)).sum(dim=1))


def test_candidates_are_near_and_distinct_and_in_order(precise: Quantizer) -> None:
    x = clustered(40, seed=4).double()
    distances, codes = precise.candidates(x, 150)
    assert (distances.diff(dim=1) >= 0).all()
    assert all(len(row.unique(dim=0)) == 150 for row in codes)
    words = precise.decode(codes.flatten(0, 1)).view(40, 150, DIM)
    torch.testing.assert_close(distances, (x[:, None] - words).square().sum(dim=2))


def test_candidates_in_float32_are_in_order_too(quantizer: Quantizer) -> None:
    distances = quantizer.candidates(clustered(300, seed=4) + 5, 150).distances
    assert (distances.diff(dim=1) >= 0).all()
    assert (distances >= 0).all()


@pytest.mark.parametrize(("num_codebooks", "codebook_size"), [(3, 16), (4, 8)])
@pytest.mark.parametrize("k", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_candidates_recall_the_nearest_of_all(
    kind: str, num_codebooks: int, codebook_size: int, k: int
) -> None:
    rows = 300 if codebook_size == CODEBOOK_SIZE else 150
    sizes = DIM, num_codebooks, codebook_size, rows
    quantizer = fitted(kind, *sizes, dtype=torch.float64)
    x = clustered(60, seed=4).double()
    words = quantizer.decode(every_code(num_codebooks, codebook_size))
    true = (x[:, None] - words).square().sum(dim=2)  # (n, all)
    last = true.kthvalue(k, dim=1, keepdim=True).values
    found = quantizer.candidates(x, k).distances
    assert found.shape == (60, k)
    hits = (found <= last * (1 + 1e-9)).double().mean()
    assert hits >= 0.95
    torch.testing.assert_close(found[:, 0], true.amin(dim=1))


def test_all_codewords_can_be_candidates(kind: str) -> None:
    quantizer = made(kind).double().fit(clustered(FEW))
    x = gaussian(3).double()
    distances, codes = quantizer.candidates(x, 64)
    assert all(len(row.unique(dim=0)) == 64 for row in codes)
    words = quantizer.decode(every_code(2, 8))
    true = (x[:, None] - words).square().sum(dim=2).sort(dim=1).values
    torch.testing.assert_close(distances, true)


# --- types, modes and files ---------------------------------------------------


def test_double_precision_is_kept_and_agrees(kind: str) -> None:
    x = clustered(FEW)
    single, double = small(kind), made(kind).double().fit(x.double())
    assert double.dtype == double(x.double()).dtype == torch.float64
    assert double.error(x.double()) == pytest.approx(single.error(x), rel=0.1)
    assert double.encode(x).dtype == torch.uint8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rows_of_other_types_are_taken(
    quantizer: Quantizer, x: Tensor, dtype: torch.dtype
) -> None:
    rough = x.to(dtype)
    assert torch.equal(quantizer.encode(rough), quantizer.encode(rough.float()))
    assert quantizer(rough).dtype == torch.float32
    assert quantizer.candidates(rough, 3).distances.dtype == torch.float32
    quantizer.update(rough)
    assert quantizer.dtype == torch.float32


def everything(quantizer: Quantizer, x: Tensor) -> list[Tensor]:
    codes = quantizer.encode(x)
    found = quantizer.candidates(x, 20)
    results = [
        codes,
        quantizer.decode(codes),
        quantizer(x),
        quantizer.cross_terms(codes),
        quantizer.distances(x, codes),
        quantizer.inner_products(x),
        *quantizer.tables(x),
        *found,
        torch.tensor(quantizer.error(x)),
    ]
    quantizer.update(x)
    return [*results, *quantizer.state_dict().values()]


def test_autocast_changes_nothing(kind: str) -> None:
    x = clustered(FEW)
    outside = everything(small(kind), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = everything(made(kind).fit(x), x)
    assert len(inside) == len(outside) > 12
    for ours, theirs in zip(inside, outside, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def test_inference_mode_changes_nothing(kind: str) -> None:
    x, quantizer = clustered(FEW), made(kind)
    outside = everything(small(kind), x)
    with torch.inference_mode():
        inside = everything(quantizer.fit(x.clone()), x.clone())
    for ours, theirs in zip(inside, outside, strict=True):
        assert torch.equal(ours, theirs)
    quantizer.update(x)  # its buffers are ordinary tensors still


def test_no_gradient_flows(quantizer: Quantizer) -> None:
    x = clustered(FEW).requires_grad_()
    assert not any(result.requires_grad for result in everything(quantizer, x))
    assert not made(KIND_OF[type(quantizer)]).fit(x).codebooks.requires_grad
    assert list(quantizer.parameters()) == []

"""The battery: what is true of every coder in the registry, with no exceptions."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from gradsnap.coders import (
    CODERS,
    HASHERS,
    QUANTIZERS,
    Coder,
    Hasher,
    Quantizer,
    load_coder,
    unpacked_bits,
)
from gradsnap.coders.quantizers import (
    CompositeQuantizer,
    LocallyOptimizedProductQuantizer,
    SupervisedQuantizer,
)
from gradsnap.coders.tables import sums_of_own
from gradsnap.errors import InputError, NotFittedError
from tests.conftest import (
    CODER_BITS,
    CODER_DIM,
    assert_same_state,
    classes,
    fitted_coder,
    gaussian,
    made_coder,
)

FIXTURES = Path(__file__).parent / "fixtures" / "coders"


def rows(count: int, seed: int = 1) -> Tensor:
    """Rows the coders were not fitted to."""
    return classes(count, seed)[0]


def some_codes(coder: Coder, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    size = (count, coder.num_codebooks)
    return torch.randint(coder.codebook_size, size, generator=generator)


def test_one_registry_has_both_families_and_the_others() -> None:
    assert list(CODERS) == [*QUANTIZERS, "sq", "lopq", *HASHERS]
    assert len(set(CODERS.values())) == len(CODERS)


# --- fit ------------------------------------------------------------------------


def test_fit_returns_self_and_forgets_and_repeats(coder_kind: str) -> None:
    coder = made_coder(coder_kind)
    assert coder.fit(5 + gaussian(60, CODER_DIM), torch.arange(60) % 3) is coder
    assert coder.fitted
    coder.fit(*classes(120))
    once = fitted_coder(coder_kind)
    assert_same_state(once, coder)
    assert once.fingerprint() == coder.fingerprint()
    assert torch.equal(once.encode(rows(50)), coder.encode(rows(50)))


def test_nothing_of_the_caller_is_touched(coder_kind: str) -> None:
    (x, labels), state = classes(60), torch.get_rng_state()
    before, labels_before = x.clone(), labels.clone()
    numpy_state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    coder = made_coder(coder_kind).fit(x, labels)
    codes = coder.encode(x)
    codes_before = codes.clone()
    coder.tables(x)
    coder.code_tables(codes)
    coder.cross_terms(codes)
    coder.distances(x, codes)
    coder.update(x)
    assert torch.equal(x, before)
    assert torch.equal(labels, labels_before)
    assert torch.equal(codes, codes_before)
    assert torch.equal(torch.get_rng_state(), state)
    numpy_after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert numpy_after["pos"] == numpy_state["pos"]
    assert np.array_equal(numpy_after["key"], numpy_state["key"])


def test_labels_are_demanded_by_those_that_learn_from_them(coder_kind: str) -> None:
    (x, labels), coder = classes(20), made_coder(coder_kind)
    if not coder.supervised:
        alone = coder.fit(x).encode(x)
        assert torch.equal(coder.fit(x, labels).encode(x), alone)
        return
    with pytest.raises(InputError, match="is supervised: fit needs labels"):
        coder.fit(x)
    with pytest.raises(InputError, match="at least two classes, got one"):
        coder.fit(x, 0 * labels)
    with pytest.raises(InputError, match="one label for each of 20 rows"):
        coder.fit(x, labels[:3])


# --- codes ----------------------------------------------------------------------


def test_codes_have_their_type_shape_and_range(coder: Coder) -> None:
    codes = coder.encode(rows(200))
    assert codes.shape == (200, coder.num_codebooks)
    assert codes.dtype == coder.code_dtype == torch.uint8
    assert int(codes.max()) < coder.codebook_size
    assert all(len(column.unique()) > 4 for column in codes.T)
    assert coder.encode(rows(200)[:0]).shape == (0, coder.num_codebooks)


def test_a_row_is_encoded_alone(coder: Coder) -> None:
    x = rows(30)
    together = coder.encode(x)
    assert torch.equal(torch.cat([coder.encode(row[None]) for row in x]), together)


def test_layout_and_type_of_the_input_do_not_matter(coder: Coder) -> None:
    x = rows(30)
    codes = coder.encode(x)
    assert torch.equal(coder.encode(x.T.contiguous().T), codes)
    assert torch.equal(coder.encode(x.double()), codes)
    rough = x.bfloat16()
    assert torch.equal(coder.encode(rough), coder.encode(rough.float()))


@pytest.mark.parametrize("bits", [4, 8, 12, 16, 24, 32, 48, 64])
def test_as_many_bits_as_asked_for_or_a_sentence(coder_kind: str, bits: int) -> None:
    wide = CODERS[coder_kind].dim_of_bits(bits) or 64
    coder = made_coder(coder_kind, bits, dim=wide)
    assert coder.bits == bits
    assert f"bits={bits}" in repr(coder)
    try:
        narrow = made_coder(coder_kind, bits, dim=4, projected_dim=4)
    except (InputError, TypeError):
        narrow = None
    if narrow is not None:
        assert narrow.bits == bits


@pytest.mark.parametrize("bits", [0, -8])
def test_no_code_is_empty(coder_kind: str, bits: int) -> None:
    with pytest.raises(InputError, match=f"{bits}"):
        CODERS[coder_kind].of_bits(8, bits)


def test_bits_that_do_not_fit_are_refused_in_words() -> None:
    refusals = {
        "pq": (lambda: CODERS["pq"].of_bits(4, 64), "at most dim = 4 .*, got 8"),
        "sq": (lambda: CODERS["sq"].of_bits(4, 64), "at most dim = 4 .*, got 8"),
        "itq": (lambda: CODERS["itq"].of_bits(4, 8), "one bit a dimension: 8 > 4"),
        "pcah": (lambda: CODERS["pcah"].of_bits(4, 8), "one bit a dimension: 8 > 4"),
        "sign": (lambda: CODERS["sign"].of_bits(4, 8), "must be dim = 4, got 8"),
        "weighted": (lambda: CODERS["weighted"].of_bits(4, 8), "8 > 4"),
        "lsh": (lambda: CODERS["lsh"].of_bits(4, 8, 16), "16 is for quantizers"),
        "cq": (lambda: CODERS["cq"].of_bits(8, 12, 256), "must be a multiple of 8"),
        "aq": (lambda: CODERS["aq"].of_bits(8, 12, 3), "power of two.* got 3"),
        "rvq": (lambda: CODERS["rvq"].of_bits(8, 12, 0), "power of two.* got 0"),
    }
    for make, words in refusals.values():
        with pytest.raises(InputError, match=words):
            make()


# --- distances ------------------------------------------------------------------


def test_distances_are_offset_plus_entries_plus_cross_term(coder: Coder) -> None:
    queries, codes = rows(5), coder.encode(rows(40, seed=2))
    entries, offsets = coder.tables(queries)
    assert entries.shape == (5, coder.num_codebooks, coder.codebook_size)
    assert offsets.shape == (5,)
    terms = coder.cross_terms(codes)
    assert terms.shape == (40,)
    distances = coder.distances(queries, codes)
    assert distances.shape == (5, 40)
    for q, n in itertools.product(range(5), range(40)):
        total = float(offsets[q]) + float(terms[n])
        for m, word in enumerate(codes[n].tolist()):
            total += float(entries[q, m, word])
        assert float(distances[q, n]) == pytest.approx(max(total, 0), abs=1e-3)


def slow_distance(coder: Coder, query: Tensor, code: Tensor) -> float:
    """By what the code means: the vector it stands for, or the bits that differ."""
    if isinstance(coder, Hasher):
        weights: list[float] = coder.bit_weights.tolist()
        asked = unpacked_bits(coder.encode(query[None]), coder.bits)[0]
        found = unpacked_bits(code[None], coder.bits)[0]
        return sum(w for w, a, b in zip(weights, asked, found, strict=True) if a != b)
    if isinstance(coder, SupervisedQuantizer):
        return slow_distance(coder.quantizer, coder.project(query[None])[0], code)
    assert isinstance(coder, Quantizer | LocallyOptimizedProductQuantizer)
    square = (query - coder._decode(code[None].long())[0]).double().square().sum()
    return max(float(square) - slack(coder, code), 0)


def slack(coder: Coder, code: Tensor) -> float:
    """What a composite code's cross term has too much: search takes the constant."""
    if isinstance(coder, SupervisedQuantizer):
        return slack(coder.quantizer, code)
    if isinstance(coder, CompositeQuantizer):
        return float(coder.slack(code[None]))
    return 0.0


def test_distances_are_those_of_a_loop(coder: Coder) -> None:
    queries, codes = rows(5), coder.encode(rows(20, seed=2))
    distances = coder.distances(queries, codes)
    for q, n in itertools.product(range(5), range(20)):
        wanted = slow_distance(coder, queries[q], codes[n])
        assert float(distances[q, n]) == pytest.approx(wanted, rel=1e-4, abs=2e-3)


def test_code_tables_are_tables_of_what_the_code_stands_for(coder: Coder) -> None:
    x = rows(9)
    codes = coder.encode(x)
    if isinstance(coder, Quantizer | LocallyOptimizedProductQuantizer):
        wanted = coder.tables(coder._decode(codes.long()))
    elif isinstance(coder, SupervisedQuantizer):
        wanted = coder.quantizer.tables(coder.quantizer.decode(codes))
    else:
        wanted = coder.tables(x)
    for ours, theirs in zip(coder.code_tables(codes), wanted, strict=True):
        assert torch.equal(ours, theirs)


def test_a_code_is_at_distance_zero_of_itself(coder: Coder) -> None:
    """Up to the slack of composite codes, whose cross term is taken as constant."""
    codes = coder.encode(rows(60))
    entries, offsets = coder.code_tables(codes)
    found = sums_of_own(entries, codes.long()[:, None])[:, 0]  # (n,)
    found += offsets + coder.cross_terms(codes)
    wanted = torch.tensor([-slack(coder, code) for code in codes])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-3)


def test_whole_distances_say_how_large_they_get(coder: Coder) -> None:
    distances = coder.distances(rows(20), coder.encode(rows(60, seed=2)))
    assert (distances >= 0).all()
    if coder.hamming_levels is not None:
        assert coder.hamming_levels == coder.bits
        assert torch.equal(distances, distances.round())
        assert distances.max() <= coder.hamming_levels


def test_padding_never_counts(coder_kind: str) -> None:
    """Twelve bits fill two bytes but for a half, which is zero and weighs nothing."""
    coder = fitted_coder(coder_kind)
    if not isinstance(coder, Hasher):
        assert coder.bits == CODER_BITS
        return
    codes = coder.encode(rows(50))
    assert coder.num_codebooks == 2
    assert int(codes[:, 1].max()) < 16
    entries = coder.tables(rows(5)).entries
    noise = (torch.arange(256) & 15) + 240  # the same word, all padding set
    assert torch.equal(entries[:, 1, noise], entries[:, 1, torch.arange(256) & 15])


# --- what it is -----------------------------------------------------------------


def test_config_rebuilds_an_equal_coder(coder_kind: str, coder: Coder) -> None:
    twin = type(coder)(**coder.config())
    assert twin.config() == coder.config()
    assert_same_state(twin.fit(*classes(120)), coder)
    other = made_coder(coder_kind, seed=7)
    assert other.config()["seed"] == 7
    assert type(other)(**other.config()).config() == other.config()


def change(value: Tensor) -> None:
    """A small change of the first number, in place."""
    flat = value.view(-1)
    flat[0] = ~flat[0] if value.dtype == torch.bool else flat[0] + 1


def test_the_fingerprint_is_of_all_but_statistics(coder: Coder) -> None:
    own, state = coder.fingerprint(), coder.state_dict()
    assert coder.statistics <= state.keys()
    assert "fitted" in coder.statistics
    for name, value in state.items():
        before = value.clone()
        change(value)
        assert (coder.fingerprint() == own) == (name in coder.statistics), name
        value.copy_(before)
    assert coder.fingerprint() == own


def test_a_device_or_a_copy_keeps_the_fingerprint(coder: Coder) -> None:
    own = coder.fingerprint()
    assert coder.to("cpu").fingerprint() == own
    twin = type(coder)(**coder.config())
    twin.load_state_dict(coder.state_dict())
    assert twin.fingerprint() == own
    assert torch.equal(twin.encode(rows(40)), coder.encode(rows(40)))
    assert_same_state(twin.update(rows(40)), coder.update(rows(40)))


def test_update_does_nothing_unless_it_follows(coder: Coder) -> None:
    own = coder.fingerprint()
    assert coder.update(rows(60, seed=5)) is coder
    assert (coder.fingerprint() != own) == coder.follows


def test_error_is_there_where_codes_stand_for_vectors(coder: Coder) -> None:
    error = coder.relative_error(rows(60))
    if isinstance(coder, Quantizer):
        assert error is not None
        assert 0 < error < 1
    else:
        assert error is None


# --- files ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saved_and_loaded(coder: Coder, dtype: torch.dtype, tmp_path: Path) -> None:
    coder.to(dtype).update(rows(30)).save(tmp_path / "coder")
    twin = load_coder(tmp_path / "coder")
    assert type(twin) is type(coder)
    assert twin.dtype == coder.dtype
    assert twin.config() == coder.config()
    assert_same_state(twin, coder)
    assert twin.fingerprint() == coder.fingerprint()
    assert torch.equal(twin.encode(rows(50)), coder.encode(rows(50)))


def test_an_unfitted_coder_is_saved_unfitted(coder_kind: str, tmp_path: Path) -> None:
    coder = made_coder(coder_kind)
    coder.save(tmp_path / "coder")
    assert bool(load_coder(tmp_path / "coder").fitted) == bool(coder.fitted)


@pytest.mark.parametrize("kind", ["pq", "itq", "ksh"])
def test_files_of_version_zero_open_and_encode_as_before(kind: str) -> None:
    coder = load_coder(FIXTURES / f"{kind}.safetensors")
    assert type(coder) is CODERS[kind]
    told = FIXTURES / f"{kind}-codes.safetensors"
    kept = load_file(told)
    assert torch.equal(coder.encode(kept["rows"]), kept["codes"])
    assert coder.seed == 3
    with safe_open(told, framework="pt") as file:
        before = (file.metadata() or {}).get("fingerprint")
    assert before in (None, coder.fingerprint())  # quantizers alone had one
    assert (before is None) == isinstance(coder, Hasher)


# --- what is refused ------------------------------------------------------------

ROWS_VERBS: dict[str, Callable[[Coder, Tensor], object]] = {
    "encode": lambda coder, x: coder.encode(x),
    "tables": lambda coder, x: coder.tables(x),
    "distances": lambda coder, x: coder.distances(
        x, torch.zeros(1, coder.num_codebooks, dtype=torch.uint8)
    ),
}
CODES_VERBS: dict[str, Callable[[Coder, Tensor], object]] = {
    "code_tables": lambda coder, codes: coder.code_tables(codes),
    "cross_terms": lambda coder, codes: coder.cross_terms(codes),
    "distances": lambda coder, codes: coder.distances(rows(2), codes),
}


def test_unfitted_verbs_name_fit(coder_kind: str) -> None:
    coder = made_coder(coder_kind)
    if coder_kind == "sign":  # there is nothing to fit
        assert coder.fitted
        return
    assert not coder.fitted
    words = f"this {type(coder).__name__} is not fitted yet: call fit"
    for verb in ROWS_VERBS.values():
        with pytest.raises(NotFittedError, match=words):
            verb(coder, rows(3))
    for verb in CODES_VERBS.values():
        with pytest.raises(NotFittedError, match=words):
            verb(coder, some_codes(coder, 3))


def broken(value: float) -> Tensor:
    x = rows(9)
    x[2, 3] = value
    x[4, 0] = value
    return x


BAD_ROWS = {
    "NaN": (broken(float("nan")), r"2 of 9 rows hold NaN"),
    "infinity": (broken(float("inf")), r"2 of 9 rows hold NaN, infinity"),
    "minus infinity": (broken(-float("inf")), r"2 of 9 rows hold NaN, infinity"),
    "too large": (broken(1e30), r"2 of 9 rows .* too large .* torch\.float32"),
    "wide": (gaussian(3, dim=13), r"shape \(n, 12\), got \(3, 13\)"),
    "one row": (rows(1)[0], r"shape \(n, 12\), got \(12,\)"),
    "three dims": (rows(4)[None], r"shape \(n, 12\), got \(1, 4, 12\)"),
    "integers": (torch.ones(3, CODER_DIM, dtype=torch.int64), r"floating .*int64"),
    "complex": (torch.ones(3, CODER_DIM, dtype=torch.complex64), r"floating .*plex64"),
    "numpy": (np.ones((3, CODER_DIM), np.int64), r"a floating tensor, got torch.int64"),
    "list": ([[0.0] * CODER_DIM], r"tensor or a NumPy array, got list"),
    "nothing": (None, r"tensor or a NumPy array, got NoneType"),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_bad_rows_are_refused_in_words(coder: Coder, bad: str) -> None:
    x, words = BAD_ROWS[bad]
    own, labels = coder.fingerprint(), torch.arange(9) % 3
    for verb in [*ROWS_VERBS.values(), lambda coder, x: coder.fit(x, labels)]:
        with pytest.raises(InputError, match=words):
            verb(coder, x)
    assert coder.fingerprint() == own


def test_bad_codes_are_refused_in_words(coder: Coder) -> None:
    good = some_codes(coder, 3)
    top, many = coder.codebook_size - 1, coder.num_codebooks
    bad = [
        (good * 0 + top + 1, rf"lie in 0\.\.{top}, got {top + 1}"),
        (good * 0 - 1, rf"lie in 0\.\.{top}, got -1"),
        (good.float(), r"integer codes, got torch\.float32"),
        (good > 0, r"integer codes, got torch\.bool"),
        (good[:, 1:], rf"\(n, {many}\), got \(3, {many - 1}\)"),
        (good[0], rf"\(n, {many}\), got \({many},\)"),
        (good.float().numpy(), r"integer codes, got torch.float32"),
    ]
    for (codes, words), verb in itertools.product(bad, CODES_VERBS.values()):
        with pytest.raises(InputError, match=words):
            verb(coder, codes)


def test_too_few_rows_are_refused_in_words(coder_kind: str) -> None:
    coder = made_coder(coder_kind)
    fewest = 1 if isinstance(coder, Quantizer) else 2
    words = rf"fit needs at least {fewest}, got {fewest - 1}"
    with pytest.raises(InputError, match=words):
        coder.fit(rows(fewest - 1), torch.arange(fewest - 1))


def test_a_dim_below_one_is_refused(coder_kind: str) -> None:
    with pytest.raises(InputError, match=r"dim|> 0"):
        CODERS[coder_kind].of_bits(0, 8)


# --- types and modes ------------------------------------------------------------


def test_a_fitted_coder_becomes_double(coder: Coder) -> None:
    x = rows(60)
    codes = coder.encode(x)
    distances = coder.distances(x[:5], codes)
    double = coder.double()
    same = (double.encode(x.double()) == codes).float().mean()
    assert same > 0.98
    torch.testing.assert_close(
        double.distances(x[:5].double(), codes).float(), distances, rtol=1e-3, atol=0.01
    )
    entries = double.tables(x).entries
    assert isinstance(coder, Hasher) or entries.dtype == torch.float64


def test_double_precision_learns_much_the_same(coder_kind: str) -> None:
    x, labels = classes(120)
    double = made_coder(coder_kind).double().fit(x.double(), labels)
    assert all(
        one.dtype == torch.float64
        for one in double.buffers()
        if one.is_floating_point()
    )
    assert double.encode(x).shape == (120, double.num_codebooks)


def everything(coder: Coder, x: Tensor) -> list[Tensor]:
    codes = coder.encode(x)
    results = [
        codes,
        coder.cross_terms(codes),
        coder.distances(x, codes),
        *coder.tables(x),
        *coder.code_tables(codes),
    ]
    return [*results, *coder.state_dict().values()]


def test_autocast_and_inference_mode_change_nothing(coder_kind: str) -> None:
    x, labels = classes(120)
    outside = everything(fitted_coder(coder_kind), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = everything(made_coder(coder_kind).fit(x, labels), x)
    with torch.inference_mode():
        inferred = everything(made_coder(coder_kind).fit(x.clone(), labels), x.clone())
    for ours, theirs in zip(outside * 2, [*cast, *inferred], strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def test_no_gradient_flows(coder: Coder) -> None:
    x = rows(20).requires_grad_()
    assert not any(result.requires_grad for result in everything(coder, x))
    assert list(coder.parameters()) == []


@pytest.mark.gpu
def test_a_second_device_gives_the_same_codes(coder: Coder) -> None:
    x = rows(60)
    here = coder.encode(x)
    there = coder.cuda()
    same = (there.encode(x.cuda()).cpu() == here).float().mean()
    assert same > 0.98

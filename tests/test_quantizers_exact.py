"""Each method against its formula written as a loop, and against faiss."""

import itertools
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import (
    AdditiveQuantizer,
    CompositeQuantizer,
    GeneralizedResidualQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
    additive,
    residual,
    shrinking,
)
from gradsnap.coders.quantizers.beam import (
    Found,
    beam_codes,
    beam_search,
    compiled_beam,
)
from gradsnap.coders.quantizers.beam_tables import BeamTables
from gradsnap.coders.quantizers.codeword_tables import (
    pair_sums,
    pair_tables,
    sum_codewords,
    unary_tables,
)
from gradsnap.coders.quantizers.composite import ConstantCrossEnergy, spread_blocks
from gradsnap.coders.quantizers.least_squares import (
    RIDGE,
    least_squares,
    pair_counts,
    solved_at_once,
    solved_downhill,
)
from gradsnap.coders.quantizers.local_search import Energy, icm, local_search
from gradsnap.coders.quantizers.optimized import balanced_directions
from gradsnap.coders.rotations import procrustes
from gradsnap.errors import InputError
from tests import reference
from tests.conftest import (
    DIM,
    clustered,
    every_code,
    fitted,
    gaussian,
    needs_numba,
    variance,
)


def random_codebooks(
    num_codebooks: int = 3, size: int = 4, dim: int = 5, seed: int = 0
) -> Tensor:
    words = gaussian(num_codebooks * size, dim, seed).double()
    return words.view(num_codebooks, size, dim)


def random_codes(rows: int, num_codebooks: int = 3, size: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(rows)
    return torch.randint(size, (rows, num_codebooks), generator=generator)


# --- the product family -------------------------------------------------------

PRODUCT_FAMILY = ["pq", "opq"]


@pytest.mark.parametrize("kind", PRODUCT_FAMILY)
def test_product_encode_is_exhaustive(kind: str) -> None:
    quantizer = fitted(kind, dtype=torch.float64)
    x = clustered(50, seed=4).double()
    words = quantizer.decode(every_code(3, 16))
    nearest = (x[:, None] - words).square().sum(dim=2).argmin(dim=1)
    assert torch.equal(quantizer.encode(x).long(), every_code(3, 16)[nearest])


@pytest.mark.parametrize("dim", [8, 10, 11])
def test_product_codes_are_those_of_the_loop(dim: int) -> None:
    x = clustered(60, dim)
    quantizer = ProductQuantizer(dim, num_codebooks=3, codebook_size=8).fit(x)
    codes, codebooks = quantizer.encode(x), quantizer.codebooks.numpy()
    widths = [dim // 3 + (1 if m < dim % 3 else 0) for m in range(3)]
    starts = [0, *itertools.accumulate(widths)]
    for row, code in zip(x.numpy(), codes.tolist(), strict=True):
        for m, width in enumerate(widths):
            block = row[starts[m] : starts[m + 1]]
            assert code[m] == reference.nearest(block, codebooks[m, :, :width])
    decoded = [reference.decode_blocks(code, codebooks, dim) for code in codes.numpy()]
    np.testing.assert_array_equal(quantizer.decode(codes).numpy(), np.array(decoded))


@pytest.mark.parametrize("kind", PRODUCT_FAMILY)
@pytest.mark.parametrize("k", [1, 50, 150, 4096])
def test_product_candidates_are_exact(kind: str, k: int) -> None:
    quantizer = fitted(kind, dtype=torch.float64)
    x = clustered(30, seed=4).double()
    words = quantizer.decode(every_code(3, 16))
    true = (x[:, None] - words).square().sum(dim=2).sort(dim=1).values[:, :k]
    distances, codes = quantizer.candidates(x, k)
    torch.testing.assert_close(distances, true)
    assert torch.equal(codes[:, 0], quantizer.encode(x))


@pytest.mark.parametrize("kind", PRODUCT_FAMILY)
def test_product_reconstructions_are_stable(kind: str) -> None:
    quantizer, x = fitted(kind), clustered(300)
    codes = quantizer.encode(x)
    assert torch.equal(quantizer.encode(quantizer.decode(codes)), codes)


@pytest.mark.parametrize("kind", PRODUCT_FAMILY)
def test_product_distances_need_no_cross_term(kind: str) -> None:
    quantizer = fitted(kind)
    assert quantizer.cross_terms(every_code(3, 16)).abs().max() == 0


def test_a_product_quantizer_has_no_more_blocks_than_dimensions() -> None:
    for known in (ProductQuantizer, OptimizedProductQuantizer, CompositeQuantizer):
        with pytest.raises(InputError, match=r"at most dim = 4 .*, got 5"):
            known(dim=4, num_codebooks=5, codebook_size=4)
        assert known(dim=4, num_codebooks=4, codebook_size=4).bits == 8


def test_product_update_is_sequential_k_means_in_each_block() -> None:
    quantizer = ProductQuantizer(6, num_codebooks=2, codebook_size=4, decay=0.8)
    quantizer.double().fit(clustered(200, 6))
    before, weights = quantizer.codebooks.clone(), quantizer.counts.clone()
    x = clustered(50, 6, seed=1).double()
    quantizer.update(x)
    for m, block in enumerate(x.split(3, dim=1)):
        moved, counts = reference.follow(
            before[m].numpy(), weights[m].numpy(), block.numpy(), decay=0.8
        )
        np.testing.assert_allclose(quantizer.codebooks[m].numpy(), moved, atol=1e-12)
        np.testing.assert_allclose(quantizer.counts[m].numpy(), counts, atol=1e-12)


def faiss_twin(quantizer: ProductQuantizer) -> Any:
    """faiss's product quantizer with our centroids."""
    bits = quantizer.bits // quantizer.num_codebooks
    twin: Any = faiss.ProductQuantizer(quantizer.dim, quantizer.num_codebooks, bits)
    faiss.copy_array_to_vector(quantizer.codebooks.numpy().ravel(), twin.centroids)
    return twin


def test_product_codes_and_vectors_are_those_of_faiss() -> None:
    x = clustered(1000, 12)
    quantizer = ProductQuantizer(12, num_codebooks=4, codebook_size=256).fit(x)
    twin, unseen = faiss_twin(quantizer), clustered(500, 12, seed=1)
    codes = quantizer.encode(unseen)
    np.testing.assert_array_equal(codes.numpy(), twin.compute_codes(unseen.numpy()))
    decoded = twin.decode(codes.numpy())
    np.testing.assert_allclose(quantizer.decode(codes).numpy(), decoded, rtol=1e-6)


def test_product_distances_are_those_of_faiss() -> None:
    x = clustered(500, 12)
    quantizer = ProductQuantizer(12, num_codebooks=4, codebook_size=256).fit(x)
    index = faiss.IndexPQ(12, 4, 8)
    index.pq = faiss_twin(quantizer)
    index.is_trained = True
    index.add(x.numpy())
    queries = clustered(20, 12, seed=1)
    theirs, ids = index.search(queries.numpy(), 500)
    ours = quantizer.distances(queries, quantizer.encode(x)).numpy()
    picked = np.take_along_axis(ours, ids, axis=1)
    np.testing.assert_allclose(picked, theirs, rtol=1e-4, atol=1e-4)


def relative_error(x: Tensor, reconstruction: np.ndarray) -> float:
    difference = x.numpy() - reconstruction
    return float(np.square(difference).sum(axis=1).mean()) / variance(x)


def test_product_error_is_like_that_of_faiss() -> None:
    x = clustered(2000, 16, clusters=40)
    theirs: Any = faiss.ProductQuantizer(16, 4, 4)
    theirs.train(x.numpy())
    faiss_error = relative_error(x, theirs.decode(theirs.compute_codes(x.numpy())))
    ours = ProductQuantizer(16, num_codebooks=4, codebook_size=16).fit(x)
    assert ours.error(x) / variance(x) < 1.02 * faiss_error


def test_residual_error_is_like_that_of_faiss() -> None:
    x = clustered(2000, 16, clusters=40)
    theirs: Any = faiss.ResidualQuantizer(16, 4, 4)
    theirs.max_beam_size = 5
    theirs.train(x.numpy())
    faiss_error = relative_error(x, theirs.decode(theirs.compute_codes(x.numpy())))
    ours = ResidualQuantizer(16, num_codebooks=4, codebook_size=16).fit(x)
    assert ours.error(x) / variance(x) < 1.02 * faiss_error


# --- the rotation -------------------------------------------------------------


def test_rotation_is_orthogonal_and_stays_so() -> None:
    quantizer = OptimizedProductQuantizer(
        DIM, num_codebooks=3, codebook_size=16, rotate_every=2
    )
    quantizer.fit(clustered(300))
    for seed in range(6):
        before = quantizer.rotation.clone()
        quantizer.update(clustered(100, seed=seed))
        assert torch.equal(before, quantizer.rotation) == (seed % 2 == 0)
        gram = quantizer.rotation.T @ quantizer.rotation
        torch.testing.assert_close(gram, torch.eye(DIM), rtol=0, atol=1e-5)


def test_rotation_undoes_a_rotation() -> None:
    """Variance that blocks would share evenly, until turned: OPQ finds it again."""
    scales = torch.tensor([4.0, 0.5, 4.0, 0.5, 4.0, 0.5, 4.0, 0.5])
    x = gaussian(600) * scales
    turned = x @ torch.linalg.qr(gaussian(DIM, seed=3)).Q
    even = ProductQuantizer(DIM, num_codebooks=2, codebook_size=16).fit(x)
    plain = ProductQuantizer(DIM, num_codebooks=2, codebook_size=16).fit(turned)
    rotated = OptimizedProductQuantizer(DIM, num_codebooks=2, codebook_size=16)
    error = rotated.fit(turned).error(turned)
    assert error < 0.7 * plain.error(turned)
    assert error < 1.05 * even.error(x)


def test_optimized_is_never_much_worse_than_plain() -> None:
    for x in (clustered(300), gaussian(300), clustered(300) * torch.arange(1.0, 9)):
        plain = ProductQuantizer(DIM, num_codebooks=4, codebook_size=8).fit(x)
        rotated = OptimizedProductQuantizer(DIM, num_codebooks=4, codebook_size=8).fit(
            x
        )
        assert rotated.error(x) < 1.02 * plain.error(x)


def test_procrustes_recovers_an_orthogonal_matrix() -> None:
    rotation = torch.linalg.qr(gaussian(5, 5).double()).Q
    x = gaussian(100, 5, seed=1).double()
    torch.testing.assert_close(procrustes(x.T @ (x @ rotation)), rotation)


def test_balanced_directions_share_out_the_variance() -> None:
    scales = torch.tensor([9.0, 7.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.0])
    x = gaussian(2000, 8).double() * scales
    directions = balanced_directions(x, 2)
    torch.testing.assert_close(directions.T @ directions, torch.eye(8).double())
    logs = (x @ directions).var(dim=0).log()
    halves = logs[:4].sum(), logs[4:].sum()
    assert abs(float(halves[0] - halves[1])) < 0.15 * float(logs.sum())


# --- sums, pairs and the beam -------------------------------------------------


def test_sums_and_pairs_are_those_of_the_loops() -> None:
    codebooks, codes = random_codebooks(), random_codes(20)
    decoded = [reference.decode_sum(code, codebooks.numpy()) for code in codes.numpy()]
    np.testing.assert_allclose(
        sum_codewords(codes, codebooks).numpy(), np.array(decoded)
    )
    pairs = pair_tables(codebooks)
    np.testing.assert_allclose(pairs.numpy(), reference.pair_tables(codebooks.numpy()))
    for m in range(3):
        added = [
            [
                sum(float(pairs[m, j * 4 + code[j], b]) for j in range(3))
                for b in range(4)
            ]
            for code in codes.tolist()
        ]
        np.testing.assert_allclose(pair_sums(codes, pairs, m).numpy(), np.array(added))


def test_unary_and_pairs_make_the_distance() -> None:
    codebooks, codes, x = random_codebooks(), random_codes(20), gaussian(20, 5).double()
    energy = Energy(unary_tables(x, codebooks), pair_tables(codebooks))
    for row, code, cross, total in zip(
        x.numpy(), codes.numpy(), energy.cross(codes), energy.total(codes), strict=True
    ):
        assert float(cross) == pytest.approx(
            reference.cross_term(code, codebooks.numpy()), abs=1e-12
        )
        decoded = reference.decode_sum(code, codebooks.numpy())
        true = reference.squared_distance(row, decoded) - float(row @ row)
        assert float(total) == pytest.approx(true)


@pytest.mark.parametrize("kind", ["rvq", "grvq", "aq"])
def test_additive_cross_terms_are_true(kind: str) -> None:
    quantizer = fitted(kind, dtype=torch.float64)
    codes = random_codes(30, size=16)
    codebooks = quantizer.codebooks.numpy()
    loop = [reference.cross_term(code, codebooks) for code in codes.numpy()]
    np.testing.assert_allclose(quantizer.cross_terms(codes).numpy(), loop, atol=1e-9)


SEARCHES = [
    pytest.param(compiled_beam, id="compiled", marks=needs_numba),
    pytest.param(beam_search, id="torch"),
]


@pytest.mark.parametrize("beam", [1, 2, 5, 20, 64])
@pytest.mark.parametrize("num_codebooks", [1, 3])
@pytest.mark.parametrize("search", SEARCHES)
def test_beam_search_is_its_loop(
    beam: int, num_codebooks: int, search: Callable[..., Found]
) -> None:
    codebooks, x = random_codebooks(num_codebooks), gaussian(10, 5, seed=1).double()
    scores, codes = search(
        unary_tables(x, codebooks), pair_tables(codebooks), beam, beam
    )
    for i, row in enumerate(x.numpy()):
        expected = reference.beam_search(row, codebooks.numpy(), beam)
        assert codes[i].tolist() == [list(code) for _, code in expected]
        shift = float(row @ row)
        distances = [score + shift for score in scores[i].tolist()]
        assert distances == pytest.approx([distance for distance, _ in expected])


def test_a_beam_over_everything_is_exhaustive() -> None:
    codebooks, x = random_codebooks(), gaussian(40, 5, seed=1).double()
    quantizer = ResidualQuantizer(5, 3, 4, beam_size=64).double()
    quantizer.codebooks.copy_(codebooks)
    quantizer.fitted.fill_(True)
    words = quantizer.decode(every_code(3, 4))
    nearest = (x[:, None] - words).square().sum(dim=2).argmin(dim=1)
    assert torch.equal(quantizer.encode(x).long(), every_code(3, 4)[nearest])
    assert torch.equal(quantizer.encode(words).long(), every_code(3, 4))


def test_a_wider_beam_is_never_worse() -> None:
    codebooks, x = random_codebooks(4, 8), gaussian(200, 5, seed=1).double()
    errors = [
        (
            x
            - sum_codewords(
                beam_codes(x, BeamTables(codebooks), beam)[1][:, 0], codebooks
            )
        )
        .square()
        .sum()
        for beam in (1, 4, 16, 64)
    ]
    assert all(wide <= narrow for narrow, wide in itertools.pairwise(errors))
    assert errors[-1] < errors[0]


@pytest.mark.parametrize("beam_size", [0, -3, 65_537, 2**40])
def test_a_beam_must_hold_something_and_fit(beam_size: int) -> None:
    with pytest.raises(InputError, match=f"1..65536, got {beam_size}"):
        ResidualQuantizer(DIM, 2, 4, beam_size=beam_size)


@pytest.mark.parametrize(
    "known",
    [
        ResidualQuantizer,
        GeneralizedResidualQuantizer,
        AdditiveQuantizer,
        CompositeQuantizer,
    ],
)
def test_too_many_codewords_for_pair_tables_are_refused(known: type[Quantizer]) -> None:
    with pytest.raises(InputError, match=r"at most 16384 .*, got 4 \* 8192"):
        known(DIM, 4, 8192)


# --- local search -------------------------------------------------------------


def test_icm_is_its_loop() -> None:
    codebooks, x, codes = random_codebooks(), gaussian(30, 5).double(), random_codes(30)
    energy = Energy(unary_tables(x, codebooks), pair_tables(codebooks))
    found, before = icm(energy, codes, sweeps=1), codes.clone()
    assert torch.equal(codes, before)
    for row, start, code in zip(x.numpy(), codes.numpy(), found.tolist(), strict=True):
        assert code == reference.icm_sweep(row, start, codebooks.numpy()).tolist()


def test_icm_with_a_penalty_is_its_loop() -> None:
    codebooks, x, codes = random_codebooks(), gaussian(30, 5).double(), random_codes(30)
    energy = ConstantCrossEnergy(
        unary_tables(x, codebooks),
        pair_tables(codebooks),
        constant=torch.tensor(0.7).double(),
        penalty=torch.tensor(0.3).double(),
    )
    found = icm(energy, codes, sweeps=1)
    for row, start, code in zip(x.numpy(), codes.numpy(), found.tolist(), strict=True):
        expected = reference.icm_sweep(row, start, codebooks.numpy(), 0.7, 0.3)
        assert code == expected.tolist()
    for row, code, total in zip(
        x.numpy(), codes.numpy(), energy.total(codes), strict=True
    ):
        decoded = reference.decode_sum(code, codebooks.numpy())
        slack = reference.cross_term(code, codebooks.numpy()) - 0.7
        true = reference.squared_distance(row, decoded) - float(row @ row)
        assert float(total) == pytest.approx(true + 0.3 * slack**2)


def test_local_search_is_nowhere_worse_and_somewhere_better() -> None:
    codebooks, x = random_codebooks(4, 8), gaussian(200, 5).double()
    energy = Energy(unary_tables(x, codebooks), pair_tables(codebooks))
    start = random_codes(200, 4, 8)
    totals = [energy.total(start)]
    for rounds in (0, 1, 8):
        totals.append(energy.total(local_search(energy, start, rounds, seed=0)))
    assert all((after <= before).all() for before, after in itertools.pairwise(totals))
    assert totals[3].sum() < totals[1].sum() < totals[0].sum()


def test_local_search_approaches_the_best_of_all() -> None:
    quantizer = fitted("aq", dtype=torch.float64)
    x = clustered(100, seed=4).double()
    words = quantizer.decode(every_code(3, 16))
    best = float((x[:, None] - words).square().sum(dim=2).amin(dim=1).mean())
    assert best <= quantizer.error(x) * (1 + 1e-12)
    assert quantizer.error(x) < 1.05 * best


# --- additive quantization ----------------------------------------------------


@pytest.mark.parametrize("rows", [3, 30, 200])
def test_least_squares_is_numpys(rows: int) -> None:
    x, codes = gaussian(rows, 5).double(), random_codes(rows)
    expected = reference.least_squares(x.numpy(), codes.numpy(), 4, RIDGE)
    np.testing.assert_allclose(least_squares(x, codes, 4).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("rows", [3, 30, 2000])
def test_least_squares_downhill_end_where_factors_do(rows: int) -> None:
    """Also where most codewords are used by no row.

    Codebooks are hardly determined up to shifts, so what they say of rows is compared.
    """
    x, codes = gaussian(rows, 5).double(), random_codes(rows, 3, 64)
    x[:, 4] = 0  # solved from the start
    down, once = solved_downhill(x, codes, 64), solved_at_once(x, codes, 64)
    said = [sum_codewords(codes, words) for words in (down, once)]
    torch.testing.assert_close(*said, atol=1e-3, rtol=0)


def test_many_codewords_are_solved_downhill(monkeypatch: pytest.MonkeyPatch) -> None:
    x, codes = gaussian(300, 5), random_codes(300, 3, 16)
    monkeypatch.setattr("gradsnap.coders.quantizers.least_squares.MOST_AT_ONCE", 47)
    assert torch.equal(least_squares(x, codes, 16), solved_downhill(x, codes, 16))


def test_pair_counts_are_one_hot_products() -> None:
    codes = random_codes(30)
    hot = torch.nn.functional.one_hot(codes, 4).flatten(1).double()
    assert torch.equal(pair_counts(codes, 4), hot.T @ hot)


def squared_error(x: Tensor, codes: Tensor, codebooks: Tensor) -> float:
    return float((x - sum_codewords(codes, codebooks)).square().sum())


def test_least_squares_beats_any_codebooks_for_its_codes() -> None:
    x, codes = clustered(300).double(), random_codes(300, 3, 16)
    solved = least_squares(x, codes, 16)
    for seed in range(5):
        noise = gaussian(48, DIM, seed).view_as(solved)
        for size in (0.01, 0.1, 1.0):
            moved = solved + size * noise
            assert squared_error(x, codes, solved) < squared_error(x, codes, moved)


@pytest.mark.parametrize("kind", ["rvq", "grvq", "cq"])
def test_least_squares_never_raises_what_it_minimizes(kind: str) -> None:
    quantizer, x = fitted(kind, dtype=torch.float64), clustered(300).double()
    codes = quantizer.encode(x).long()
    before, after = (
        squared_error(x, codes, words) + RIDGE * float(words.square().sum())
        for words in (quantizer.codebooks, least_squares(x, codes, 16))
    )
    assert after <= before * (1 + 1e-12)


def test_additive_never_ends_above_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the codes it was trained with, whatever the noise did in between."""
    x = clustered(300).double()
    trained = []
    shrink = shrinking.shrink

    def noted(x: Tensor, codes: Tensor, codebooks: Tensor, sweeps: int) -> Tensor:
        trained.append(codes)
        return shrink(x, codes, codebooks, sweeps)

    monkeypatch.setattr(additive, "shrink", noted)
    for noise in (0.3, 30.0):
        monkeypatch.setattr(additive, "NOISE", noise)
        quantizer = AdditiveQuantizer(DIM, 3, 16).double().fit(x)
        start = fitted("rvq", dtype=torch.float64)
        ours = squared_error(x, trained[-1], quantizer.codebooks)
        assert ours < 1.0001 * squared_error(x, start.encode(x).long(), start.codebooks)
    assert len(trained) == 2


def test_additive_beats_residual_where_codebooks_overlap() -> None:
    x = gaussian(500, 16) @ gaussian(16, 16, seed=1)
    quantizers = [
        known(16, 4, 16).fit(x)
        for known in (
            AdditiveQuantizer,
            GeneralizedResidualQuantizer,
            ResidualQuantizer,
        )
    ]
    additive_error, generalized_error, residual_error = (q.error(x) for q in quantizers)
    assert additive_error < 1.01 * generalized_error
    assert generalized_error < residual_error


# --- residual quantization ----------------------------------------------------


def test_residual_stages_learn_what_earlier_ones_left() -> None:
    x = clustered(300).double()
    quantizer = fitted("rvq", dtype=torch.float64)
    codes = quantizer.encode(x).long()
    errors = [variance(x)] + [
        squared_error(x, codes[:, :m], quantizer.codebooks[:m]) / 300 for m in (1, 2, 3)
    ]
    assert errors == sorted(errors, reverse=True)
    short = ResidualQuantizer(DIM, 2, 16).double().fit(x)
    assert torch.equal(short.codebooks, quantizer.codebooks[:2])


def test_generalized_training_error_never_rises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = clustered(300).double()
    errors: list[float] = []
    better = residual.better_codes

    def noted(x: Tensor, old: Tensor, new: Tensor, codebooks: Tensor) -> Tensor:
        found = better(x, old, new, codebooks)
        errors.append(squared_error(x, old, codebooks))
        errors.append(squared_error(x, found, codebooks))
        return found

    monkeypatch.setattr(residual, "better_codes", noted)
    GeneralizedResidualQuantizer(DIM, 3, 16, iterations=15).double().fit(x)
    assert len(errors) == 30
    start = fitted("rvq", dtype=torch.float64)
    errors.insert(0, squared_error(x, start.encode(x).long(), start.codebooks))
    pairs = itertools.pairwise(errors)
    assert all(after <= before * (1 + 1e-9) for before, after in pairs)
    assert errors[-1] < 0.97 * errors[0]


def test_generalized_is_below_residual() -> None:
    for x in (clustered(200), gaussian(200) * torch.arange(1.0, 9)):
        plain = ResidualQuantizer(DIM, 3, 16).fit(x).error(x)
        assert GeneralizedResidualQuantizer(DIM, 3, 16).fit(x).error(x) < plain


def test_better_codes_picks_row_by_row() -> None:
    codebooks, x = random_codebooks(), gaussian(50, 5).double()
    old, new = random_codes(50), random_codes(51)[:50]
    found = residual.better_codes(x, old, new, codebooks)
    for row, *codes, code in zip(x, old, new, found, strict=True):
        errors = [squared_error(row[None], c[None], codebooks) for c in codes]
        assert torch.equal(code, codes[errors.index(min(errors))])


# --- composite quantization ---------------------------------------------------


def composite() -> CompositeQuantizer:
    quantizer = fitted("cq", dtype=torch.float64)
    assert isinstance(quantizer, CompositeQuantizer)
    return quantizer


def test_composite_lies_between_product_and_additive() -> None:
    x = clustered(300)
    errors = [fitted(kind).error(x) for kind in ("pq", "cq", "aq")]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == 3


def test_composite_cross_terms_are_nearly_constant() -> None:
    quantizer, x = composite(), clustered(300).double()
    slack = quantizer.slack(quantizer.encode(x))
    assert float(slack.std()) < 0.5 * quantizer.error(x)
    assert abs(float(slack.mean())) < 0.1 * quantizer.error(x)
    unconstrained = fitted("aq", dtype=torch.float64)
    cross = unconstrained.cross_terms(unconstrained.encode(x))
    assert float(slack.std()) < 0.1 * float(cross.std())


def test_composite_slack_is_the_true_cross_term_less_the_constant() -> None:
    quantizer, codes = composite(), random_codes(20, size=16)
    loop = [
        reference.cross_term(code, quantizer.codebooks.numpy())
        for code in codes.numpy()
    ]
    expected = np.array(loop) - float(quantizer.constant)
    np.testing.assert_allclose(quantizer.slack(codes).numpy(), expected, atol=1e-9)
    terms = quantizer.cross_terms(codes)
    assert terms.tolist() == [float(quantizer.constant)] * 20


def overlap_without_norms(kind: str) -> float:
    """Share of the 10 nearest that tables alone find, without a norm of the items."""
    quantizer, x = fitted(kind, dtype=torch.float64), clustered(300).double()
    queries, codes = clustered(50, seed=1).double(), quantizer.encode(x)
    tables = quantizer.distances(queries, codes) - quantizer.cross_terms(codes)
    true = torch.cdist(queries, quantizer.decode(codes))
    nearest, ranked = (d.topk(10, largest=False).indices for d in (true, tables))
    return float((nearest[:, :, None] == ranked[:, None]).any(dim=2).double().mean())


def test_composite_ranks_without_norms_where_additive_cannot() -> None:
    assert overlap_without_norms("cq") > 0.85 > overlap_without_norms("aq") + 0.2


def test_a_stronger_penalty_leaves_less_slack() -> None:
    x = clustered(200).double()
    found = [
        CompositeQuantizer(DIM, 3, 8, strength=strength, iterations=6).double().fit(x)
        for strength in (0.1, 10.0, 1000.0)
    ]
    slacks = [float(quantizer.slack(quantizer.encode(x)).std()) for quantizer in found]
    errors = [quantizer.error(x) for quantizer in found]
    assert slacks == sorted(slacks, reverse=True)
    assert errors == sorted(errors)


@pytest.mark.parametrize("dim", [8, 10])
def test_spread_blocks_decode_as_the_product_does(dim: int) -> None:
    x = clustered(60, dim)
    product = ProductQuantizer(dim, num_codebooks=3, codebook_size=8).fit(x)
    codes = random_codes(20, size=8)
    assert torch.equal(
        sum_codewords(codes, spread_blocks(product)), product.decode(codes)
    )


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_composite_improves_on_its_start_at_any_scale(scale: float) -> None:
    """L-BFGS stops by absolute tolerances; small embeddings must not stop it."""
    x = clustered(200) * scale
    start = ProductQuantizer(DIM, 3, 8).fit(x).error(x)
    found = CompositeQuantizer(DIM, 3, 8, iterations=5).fit(x)
    assert found.error(x) < 0.8 * start

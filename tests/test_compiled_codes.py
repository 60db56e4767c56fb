"""Kernels that search codes, against their twins in torch: equal to the bit."""

import numpy as np
import pytest
import torch

from gradsnap.coders.quantizers.beam import beam_search, compiled_beam
from gradsnap.coders.quantizers.candidates import (
    FEW_SUMS,
    compiled_sums,
    folded_sums,
)
from gradsnap.coders.quantizers.codeword_tables import pair_tables, unary_tables
from gradsnap.coders.quantizers.local_search import (
    Energy,
    compiled_search,
    local_search,
)
from gradsnap.coders.quantizers.shrinking import shrunk_means
from gradsnap.coders.tables import sums_of_own
from tests.conftest import gaussian, needs_numba
from tests.test_quantizers_exact import random_codebooks, random_codes

pytestmark = needs_numba


@pytest.mark.parametrize("num_codebooks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(("size", "beam", "keep"), [(2, 9, 9), (32, 5, 1), (256, 7, 3)])
def test_both_beams_agree_to_the_bit(
    num_codebooks: int, size: int, beam: int, keep: int
) -> None:
    codebooks = random_codebooks(num_codebooks, size).float()
    unaries = unary_tables(gaussian(70, 5, seed=1), codebooks)
    pairs = pair_tables(codebooks)
    scores, codes = compiled_beam(unaries, pairs, beam, keep)
    expected = beam_search(unaries, pairs, beam, keep)
    assert torch.equal(scores, expected[0])
    assert torch.equal(codes, expected[1])


@pytest.mark.parametrize("num_codebooks", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("size", [2, 32, 256])
def test_both_local_searches_agree_to_the_bit(num_codebooks: int, size: int) -> None:
    codebooks = random_codebooks(num_codebooks, size).float()
    unaries = unary_tables(gaussian(70, 5, seed=1), codebooks)
    energy = Energy(unaries, pair_tables(codebooks))
    start = random_codes(70, num_codebooks, size)
    before = start.clone()
    for rounds in (0, 1, 6):
        found = compiled_search(energy, start, rounds, seed=3)
        assert torch.equal(found, local_search(energy, start, rounds, seed=3))
    assert torch.equal(start, before)
    assert not torch.equal(found, start)


@pytest.mark.parametrize(("num_codebooks", "size", "k"), [(1, 256, 150), (2, 16, 256)])
def test_all_sums_are_listed_where_they_are_few(
    num_codebooks: int, size: int, k: int
) -> None:
    tables = gaussian(70, num_codebooks * size).view(70, num_codebooks, size).abs()
    assert size**num_codebooks <= FEW_SUMS
    found, expected = compiled_sums(tables, k), folded_sums(tables, k)
    assert torch.equal(found.distances, expected.distances)
    assert torch.equal(sums_of_own(tables, found.codes), found.distances)
    assert len(found.codes[0].unique(dim=0)) == k


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_shrunk_means_are_their_loop(spread: float) -> None:
    given = torch.arange(60) % 4
    x = gaussian(60, 3).double() + spread * gaussian(4, 3, seed=1).double()[given]
    words, counts = shrunk_means(x, given, torch.zeros(5, 3).double())
    centred = (x - x.mean(dim=0)).numpy()
    turn = np.linalg.eigh(centred.T @ centred)[1]
    rows = centred @ turn
    means = np.array([rows[given == k].mean(axis=0) for k in range(4)])
    within = ((rows - means[given]) ** 2).sum(axis=0) / (60 - 4)
    between = np.maximum((means**2).mean(axis=0) - within * 4 / 60, 0)
    kept = between / (between + within / 15)
    expected = (means * kept) @ turn.T + x.mean(dim=0).numpy()
    np.testing.assert_allclose(words[:4].numpy(), expected, atol=1e-12)
    assert words[4].tolist() == [0, 0, 0]  # no row of its own: it stays
    assert counts.tolist() == [15, 15, 15, 15, 0]

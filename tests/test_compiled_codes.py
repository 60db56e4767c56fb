"""Kernels that search codes, against their twins in torch: equal to the bit."""

import pytest
import torch

from gradsnap.coders.quantizers.beam import beam_search, compiled_beam
from gradsnap.coders.quantizers.codeword_tables import pair_tables, unary_tables
from gradsnap.coders.quantizers.local_search import (
    Energy,
    compiled_search,
    local_search,
)
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

"""Codes by bounds are the codes of whole tables, and tables follow their codebooks."""

import copy
import pickle

import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import ResidualQuantizer, beam
from gradsnap.coders.quantizers.beam import beam_codes, compiled_bounds, searched
from gradsnap.coders.quantizers.beam_tables import BeamTables, KeptTables
from gradsnap.coders.quantizers.bounds import Bounds, bounds_of, leading_directions
from gradsnap.coders.quantizers.codeword_tables import unary_tables
from gradsnap.compiled import installed

needs_numba = pytest.mark.skipif(not installed(), reason="numba is not installed")

DIM = 600


def drawn(*sizes: int, seed: int = 0, spread: float = 0.02) -> Tensor:
    """Vectors (…, DIM) that differ in twenty directions, and little in all others."""
    generator = torch.Generator().manual_seed(seed)
    inside = torch.randn(*sizes, 20, generator=generator)
    turn = torch.randn(20, DIM, generator=torch.Generator().manual_seed(9))
    rest = torch.randn(*sizes, DIM, generator=generator)
    vectors: Tensor = inside @ turn / DIM**0.5 + spread * rest
    return vectors.double()


def bounds_for(codebooks: Tensor) -> Bounds:
    bounds = bounds_of(codebooks)
    assert bounds is not None
    return bounds


def test_bounds_are_below_the_entries_and_close() -> None:
    x, codebooks = drawn(50, seed=1), drawn(4, 256, seed=2)
    for kind in (torch.float32, torch.float64):
        lower = bounds_for(codebooks.to(kind)).lower(x.to(kind))
        entries = unary_tables(x, codebooks)
        assert (lower.double() <= entries + 1e-6).all()
        assert (entries - lower.double()).mean() < 0.5 * entries.std()


@needs_numba
@pytest.mark.parametrize(("width", "keep"), [(1, 1), (5, 1), (5, 3), (16, 16)])
def test_codes_by_bounds_are_those_of_whole_tables(width: int, keep: int) -> None:
    x, codebooks = drawn(120, seed=3), drawn(5, 256, seed=4)
    pairs = BeamTables(codebooks).pairs
    (scores, codes), products = compiled_bounds(
        x, bounds_for(codebooks), pairs, width, keep
    )
    expected = searched(unary_tables(x, codebooks), pairs, width, keep)
    assert torch.equal(codes, expected[1])
    torch.testing.assert_close(scores, expected[0])
    assert 5 * len(x) <= products < len(x) * 5 * 256


@needs_numba
def test_rows_that_bounds_say_nothing_of_get_the_same_codes() -> None:
    x = 3 * torch.randn(30, DIM, generator=torch.Generator().manual_seed(5)).double()
    codebooks = drawn(4, 256, seed=6)
    pairs = BeamTables(codebooks).pairs
    (_, codes), _ = compiled_bounds(x, bounds_for(codebooks), pairs, 5, 1)
    expected = searched(unary_tables(x, codebooks), pairs, 5, 1)[1]
    assert torch.equal(codes, expected)


@needs_numba
def test_whole_tables_take_over_where_bounds_leave_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def counted(x: Tensor, *rest: object) -> object:
        calls.append(len(x))
        return compiled_bounds(x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(beam, "compiled_bounds", counted)
    x = 3 * torch.randn(5000, DIM, generator=torch.Generator().manual_seed(5)).double()
    beam_codes(x, BeamTables(drawn(4, 256, seed=6)), 5)
    assert len(calls) == 1
    assert calls[0] < 5000


def test_no_bounds_where_they_would_not_pay() -> None:
    generator = torch.Generator().manual_seed(0)
    assert bounds_of(torch.randn(4, 256, DIM, generator=generator)) is None
    assert bounds_of(drawn(4, 256)[..., :200]) is None
    assert BeamTables(drawn(4, 256)).bounds(rows=10) is None


def test_directions_are_orthonormal_and_lead() -> None:
    words = drawn(300)
    found = leading_directions(words, 20)
    torch.testing.assert_close(found.T @ found, torch.eye(20).double())
    best = torch.linalg.svdvals(words)[:20].square().sum()
    assert (words @ found).square().sum() > 0.999 * best


def test_tables_are_kept_until_an_entry_changes() -> None:
    kept, codebooks = KeptTables(), drawn(2, 16)
    first = kept.of(codebooks)
    assert kept.of(codebooks.clone()) is first
    codebooks.data[1, 3, 5] += 1  # which torch does not count as a change
    assert kept.of(codebooks) is not first
    assert not torch.equal(kept.of(codebooks).pairs[1, :16], first.pairs[1, :16])


def test_tables_are_not_sent_or_copied() -> None:
    quantizer = ResidualQuantizer(8, 2, 16).fit(torch.randn(100, 8))
    x = torch.randn(50, 8)
    before = len(pickle.dumps(ResidualQuantizer(8, 2, 16)))
    codes = quantizer.encode(x)
    assert len(pickle.dumps(quantizer)) < before + 200
    for twin in (copy.deepcopy(quantizer), pickle.loads(pickle.dumps(quantizer))):
        assert torch.equal(twin.encode(x), codes)

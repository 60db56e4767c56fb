"""Packing, Hamming, fast-scan and tuning."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from gradsnap.coders.packing import bytes_of, pack, packed_bits, unpack
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.errors import InputError
from gradsnap.index import (
    ExhaustiveIndex,
    HammingIndex,
    InvertedIndex,
    LocallyOptimizedIndex,
    MultiIndex,
    fastscan,
    load_index,
)
from tests.conftest import DIM, clustered, fitted


@pytest.mark.parametrize("bits", [1, 3, 4, 5, 8, 12, 16])
@pytest.mark.parametrize("num_codebooks", [1, 3, 8])
def test_packing_is_faiss_packing(bits: int, num_codebooks: int) -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2**bits, (50, num_codebooks))
    packed = pack(codes, 2**bits)
    assert packed.shape == (50, bytes_of(num_codebooks, 2**bits))
    assert np.array_equal(unpack(packed, num_codebooks, 2**bits), codes)
    theirs = faiss.pack_bitstrings(codes.astype(np.int32), bits)
    assert np.array_equal(packed, theirs)


# --- Hamming ------------------------------------------------------------------


@pytest.mark.parametrize("bits", [5, 16, 43])
@pytest.mark.parametrize("weighted", [False, True])
def test_hamming_is_a_count_of_bits(bits: int, weighted: bool, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    items = torch.rand(90, bits, generator=generator) < 0.5
    queries = torch.rand(10, bits, generator=generator) < 0.5
    weights = (
        torch.randint(0, 9, (bits,), generator=generator) / 8 if weighted else None
    )
    index = HammingIndex(bits, weights=weights).add(packed_bits(items))
    index.save(tmp_path / "index")
    own = torch.ones(bits) if weights is None else weights
    differ = (queries[:, None] != items[None]).float() @ own
    expected = differ.sort(dim=1, stable=True)
    for each in (index, load_index(tmp_path / "index")):
        found = each.search(packed_bits(queries), 30)
        assert torch.equal(found.ids, expected.indices[:, :30])
        assert torch.equal(found.distances, expected.values[:, :30])
    index.remove([3]).add_codes(packed_bits(items[3:4]), [900])
    assert 900 in index.search(packed_bits(items[3:4]), 5, within=[900, 4]).ids


def test_hamming_refuses_what_is_not_bits() -> None:
    index = HammingIndex(12)
    with pytest.raises(InputError, match=r"uint8; got torch\.float32"):
        index.add(torch.zeros(3, 2))
    with pytest.raises(InputError, match=r"shape \(n, 2\), got \(3, 5\)"):
        index.add(torch.zeros(3, 5, dtype=torch.uint8))
    with pytest.raises(InputError, match="bits must be at least 1, got 0"):
        HammingIndex(0)
    with pytest.raises(InputError, match="weights must be 2 numbers of at least 0"):
        HammingIndex(2, weights=torch.tensor([1.0, -1.0]))


# --- fast-scan ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pq", "opq"])
@pytest.mark.parametrize("k", [1, 40])
def test_fast_scan_equals_the_plain_scan(
    kind: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastscan, "LEAST_CODES", 500)
    index = ExhaustiveIndex(fitted(kind)).add(clustered(3000, seed=1))
    index.add(clustered(100, seed=2)).remove(range(0, 300, 7))
    ids = torch.randperm(2000, generator=torch.Generator().manual_seed(0)) + 5000
    index.add(clustered(2000, seed=3), ids)
    queries = clustered(30, seed=4)
    fast = index.search(queries, k)
    index._fast = None
    plain = index.search(queries, k)
    assert torch.equal(fast.ids, plain.ids)
    assert torch.equal(fast.distances, plain.distances)


def test_fast_scan_proves_most_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without duplicates of codes, the plain scan is hardly ever needed."""
    plain: list[int] = []
    monkeypatch.setattr(
        fastscan, "scan_all", lambda *given: plain.append(len(given[2]))
    )
    x = torch.randn(20_000, 32, generator=torch.Generator().manual_seed(0))
    quantizer = fitted("pq", dim=32, num_codebooks=16)
    index = ExhaustiveIndex(quantizer).add(x)
    index.search(x[:50], 10)
    assert sum(plain) <= 5


# --- tuning -------------------------------------------------------------------


def test_tune_finds_the_fewest_probes() -> None:
    x, queries = clustered(2000, seed=1), clustered(40, seed=2)
    quantizer = fitted("pq")
    truth = ExhaustiveIndex(quantizer).add(x).search(queries, 10).ids
    for index in (
        InvertedIndex(quantizer, num_lists=32),
        MultiIndex(quantizer, codewords=8),
    ):
        index.fit(x).add(x)
        tuning = index.tune(queries, truth, 0.9)
        assert index.probes == tuning.probes
        recalls = {trial.probes: trial.recall for trial in tuning.curve}
        assert recalls[tuning.probes] >= 0.9
        assert tuning.probes == 1 or recalls[tuning.probes - 1] < 0.9
        assert list(recalls) == sorted(recalls)
        assert str(tuning).count("\n") == len(recalls)
        assert str(tuning).count("*") == 1
        assert index.tune(queries, truth, 1.0).curve[-1].recall == 1
    with pytest.raises(InputError, match=r"target must lie in \(0, 1\], got 95"):
        index.tune(queries, truth, 95)
    with pytest.raises(InputError, match=r"40 queries need truth of shape \(40, k\)"):
        index.tune(queries, truth[:3], 0.9)
    with pytest.raises(InputError, match="probes must be a whole number"):
        index.probes = 0


def test_own_centroids() -> None:
    x = clustered(300, seed=1)
    index = InvertedIndex(fitted("pq"), centroids=x[:5], residual=True, probes=5)
    assert len(index.add(x).search(x[:3], 4).ids) == 3
    assert torch.equal(index.lists_of(x[:5]), torch.arange(5))
    with pytest.raises(InputError, match="num_lists must be at least 1"):
        InvertedIndex(fitted("pq"))
    with pytest.raises(InputError, match="the index holds 300 items: fit comes first"):
        index.fit(x)
    with pytest.raises(InputError, match="needs 2 codebooks and dim 8"):
        MultiIndex(fitted("pq"), coarse=fitted("pq"))  # type: ignore[arg-type]


def test_local_rotations_lower_the_error() -> None:
    generator = torch.Generator().manual_seed(0)
    centres = 20 * torch.randn(4, DIM, generator=generator)
    shapes = torch.randn(4, DIM, DIM, generator=generator) * torch.logspace(
        0.5, -1, DIM
    )
    which = torch.arange(2000) % 4
    x = torch.randn(2000, DIM, generator=generator)
    x = centres[which] + torch.einsum("nd,ned->ne", x, shapes[which])
    errors = []
    for kind in (InvertedIndex, LocallyOptimizedIndex):
        options: Any = {"residual": True} if kind is InvertedIndex else {}
        index = kind(
            ProductQuantizer(DIM, 2, 16), centroids=centres, probes=1, **options
        )
        index.fit(x)
        lists = index.lists_of(x)
        errors.append(index.coder.error(index._left(x, lists)))
    assert errors[1] < 0.9 * errors[0]

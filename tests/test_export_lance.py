"""Lance tables: Lance finds by our codebooks what we find."""

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch

from gradsnap.errors import InputError
from gradsnap.export import search_lance, write_lance
from gradsnap.index import ExhaustiveIndex, InvertedIndex
from tests.conftest import clustered, fitted

lance = pytest.importorskip("lance")

X = clustered(300, seed=1)
QUERIES = clustered(6, seed=2)


def assert_same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours.distances, theirs.distances, atol=1e-3, rtol=1e-4)
    apart = (ours.distances.diff(dim=1) > 1e-2).all(dim=0)
    first = apart.nonzero()[0, 0] + 1 if apart.any() else 0
    assert torch.equal(ours.ids[:, :first], theirs.ids[:, :first])


@pytest.mark.parametrize("quantizer_kind", ["pq", "opq"])
@pytest.mark.parametrize("size", [16, 256])
def test_results_are_ours(quantizer_kind: str, size: int, tmp_path: Path) -> None:
    quantizer = fitted(quantizer_kind, num_codebooks=4, codebook_size=size)
    dataset = write_lance(X, quantizer, tmp_path / "table.lance", torch.arange(300) * 2)
    ours = ExhaustiveIndex(quantizer).add(X, torch.arange(300) * 2)
    assert_same(ours.search(QUERIES, 12), search_lance(dataset, quantizer, QUERIES, 12))
    assert dataset.has_index


def test_residual_lists(tmp_path: Path) -> None:
    centroids = X[:3]
    quantizer = fitted("pq", num_codebooks=4)
    ours = InvertedIndex(quantizer, centroids=centroids, residual=True, probes=3).add(X)
    path = tmp_path / "table.lance"
    write_lance(X, quantizer, path, centroids=centroids)
    found = search_lance(path, quantizer, QUERIES, 12, probes=3)
    assert_same(ours.search(QUERIES, 12), found)


def test_filters_and_strings(tmp_path: Path) -> None:
    quantizer = fitted("pq", num_codebooks=4)
    names = [f"photo {i}" for i in range(300)]
    prices = {"price": list(range(300))}
    dataset = write_lance(X, quantizer, tmp_path / "table.lance", names, prices)
    found = search_lance(dataset, quantizer, QUERIES, 4, filter="price < 3")
    allowed = {"photo 0", "photo 1", "photo 2", None}
    assert all(set(row) == allowed for row in found.ids)
    assert found.distances[:, 3].isinf().all()


def test_what_lance_lacks_is_refused(tmp_path: Path) -> None:
    for quantizer in (fitted("rvq"), fitted("pq"), fitted("pq", 8, 4, 32)):
        with pytest.raises(InputError, match="Lance takes a ProductQuantizer or"):
            write_lance(X, quantizer, tmp_path / "table.lance")
    quantizer = fitted("pq", num_codebooks=4)
    with pytest.raises(InputError, match="at least one vector"):
        write_lance(X[:0], quantizer, tmp_path / "table.lance")
    with pytest.raises(InputError, match="may not have columns called vector"):
        write_lance(X[:1], quantizer, tmp_path / "x.lance", metadata={"vector": [1]})
    with pytest.raises(InputError, match="it exists already"):
        write_lance(X, quantizer, tmp_path)


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without_lance(name: str, *more: Any) -> Any:
        if name == "lance":
            raise ImportError(name)
        return importing(name, *more)

    monkeypatch.setattr(builtins, "__import__", without_lance)
    with pytest.raises(InputError, match=r"install gradsnap\[lance\]"):
        write_lance(X, fitted("pq", num_codebooks=4), tmp_path / "table.lance")

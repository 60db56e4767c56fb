"""FAISS files: what FAISS finds in them is what we find."""

import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from gradsnap.coders import CODERS
from gradsnap.coders.hashers import RandomHasher
from gradsnap.coders.packing import packed_bits
from gradsnap.coders.quantizers import OptimizedProductQuantizer
from gradsnap.errors import FileFormatError, InputError
from gradsnap.export import faiss_names, from_faiss, to_faiss, write_faiss
from gradsnap.index import ExhaustiveIndex, HammingIndex
from tests.conftest import DIM, clustered, fitted, gaussian
from tests.index_builders import made

QUERIES = clustered(12, seed=2)
X = clustered(200, seed=1)


def assert_parity(index: Any, path: Path) -> None:
    write_faiss(index, path)
    theirs = faiss.read_index(str(path))
    assert theirs.ntotal == len(index)
    distances, ids = theirs.search(QUERIES.numpy(), 15)
    ours = index.search(QUERIES, 15)
    np.testing.assert_allclose(distances, ours.distances.numpy(), rtol=1e-4, atol=1e-3)
    apart = np.abs(np.diff(ours.distances.numpy(), axis=1)) > 1e-2
    alone = np.pad(apart, ((0, 0), (1, 0)), constant_values=True)
    alone &= np.pad(apart, ((0, 0), (0, 1)), constant_values=False)
    assert alone.sum() > 10
    assert np.array_equal(ids[alone], ours.ids.numpy()[alone])


@pytest.mark.parametrize("own_ids", [False, True])
def test_exhaustive(kind: str, own_ids: bool, tmp_path: Path) -> None:
    index = ExhaustiveIndex(fitted(kind))
    index.add(X, torch.arange(200).flip(0) * 5 if own_ids else None)
    index.remove([10, 20])
    assert_parity(index, tmp_path / "plain.faiss")


@pytest.mark.parametrize("size", [16, 256])
@pytest.mark.parametrize("num_codebooks", [3, 4])
def test_codebook_sizes(size: int, num_codebooks: int, tmp_path: Path) -> None:
    quantizer = fitted("pq", num_codebooks=num_codebooks, codebook_size=size)
    assert_parity(ExhaustiveIndex(quantizer).add(X), tmp_path / "plain.faiss")


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("quantizer", ["pq", "opq"])
def test_inverted(quantizer: str, residual: bool, tmp_path: Path) -> None:
    index = made("inverted", fitted(quantizer), residual).add(X)
    assert_parity(index, tmp_path / "plain.faiss")


@pytest.mark.parametrize("residual", [False, True])
def test_multi(residual: bool, tmp_path: Path) -> None:
    index = made("multi", fitted("pq", num_codebooks=4), residual).add(X)
    assert_parity(index, tmp_path / "plain.faiss")


def test_hashes(tmp_path: Path) -> None:
    bits = packed_bits(X[:, :8] > 0)
    index = HammingIndex(8).add(bits, torch.arange(200) + 7)
    write_faiss(index, tmp_path / "bits.faiss")
    theirs = faiss.read_index_binary(str(tmp_path / "bits.faiss"))
    distances, ids = theirs.search(bits[:5].numpy(), 10)
    ours = index.search(bits[:5], 10)
    assert np.array_equal(distances, ours.distances.numpy())
    assert set(ids.flatten()) <= set(range(7, 207))


@pytest.mark.parametrize("bits", [8, 16])
def test_a_hasher(bits: int, tmp_path: Path) -> None:
    hasher = RandomHasher(DIM, bits).fit(X)
    index = ExhaustiveIndex(hasher).add(X)
    write_faiss(index, tmp_path / "hasher.faiss")
    theirs = faiss.read_index_binary(str(tmp_path / "hasher.faiss"))
    distances, ids = theirs.search(hasher.encode(QUERIES).numpy(), 10)
    ours = index.search(QUERIES, 10)
    assert np.array_equal(distances, ours.distances.numpy())
    exact = hasher.distances(QUERIES, hasher.encode(X)).numpy()
    assert np.array_equal(np.take_along_axis(exact, ids, axis=1), distances)


@pytest.mark.parametrize("kind", ["exhaustive", "inverted"])
def test_names_lie_beside(kind: str, tmp_path: Path) -> None:
    index = made(kind, fitted("pq"))
    names = [f"photo {i:03d} ä\n.jpg" for i in range(200)]
    index.add(X[:150], names[:150]).add(X[150:], names[150:]).remove(names[3:5])
    path = tmp_path / "photos.faiss"
    write_faiss(index, path)
    kept = json.loads((tmp_path / "photos.faiss.names.json").read_text("utf-8"))
    assert kept == faiss_names(index) == names[:3] + names[5:]
    distances, ids = faiss.read_index(str(path)).search(QUERIES.numpy(), 198)
    assert np.array_equal(np.sort(ids), np.arange(198)[None].repeat(12, axis=0))
    ours = index.search(QUERIES, 198)
    for row, far, wanted, exact in zip(
        ids, distances, ours.ids, ours.distances.tolist(), strict=True
    ):
        by_name = dict(zip(wanted, exact, strict=True))
        theirs = [by_name[kept[i]] for i in row]
        np.testing.assert_allclose(far, theirs, rtol=1e-4, atol=1e-3)
    write_faiss(made(kind, fitted("pq")).add(X), path)
    assert [p.name for p in tmp_path.iterdir()] == ["photos.faiss"]


def test_an_empty_index_is_exported() -> None:
    assert to_faiss(ExhaustiveIndex(fitted("pq"))).ntotal == 0
    assert to_faiss(ExhaustiveIndex(fitted("rvq"))).ntotal == 0
    assert to_faiss(made("inverted", fitted("opq"))).ntotal == 0
    assert to_faiss(HammingIndex(16)).ntotal == 0


def test_what_faiss_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="no LocallyOptimizedIndex over a Product"):
        to_faiss(made("local", fitted("pq")).add(X))
    with pytest.raises(InputError, match="no InvertedIndex over a ResidualQ"):
        to_faiss(made("inverted", fitted("rvq")).add(X))
    with pytest.raises(InputError, match="MultiIndex over a ProductQuantizer whose"):
        to_faiss(made("multi", fitted("opq")).add(X))
    weighted = HammingIndex(8, weights=torch.arange(8))
    with pytest.raises(InputError, match="got 8 bits with weights"):
        to_faiss(weighted)
    supervised = CODERS["sq"].of_bits(DIM, 8)
    with pytest.raises(InputError, match="no ExhaustiveIndex over a Supervised"):
        to_faiss(ExhaustiveIndex(supervised))
    with pytest.raises(InputError, match="whole bytes without weights, got 9 bits"):
        to_faiss(HammingIndex(9))


# --- import -------------------------------------------------------------------


def test_codebooks_round_trip(tmp_path: Path) -> None:
    for kind in ("pq", "opq", "rvq"):
        quantizer = fitted(kind, num_codebooks=4)
        index = ExhaustiveIndex(quantizer).add(X, torch.arange(200) + 1)
        write_faiss(index, tmp_path / "index.faiss")
        again = from_faiss(tmp_path / "index.faiss")
        assert type(again) is type(quantizer)
        assert torch.equal(again.encode(X), quantizer.encode(X))
        again.save(tmp_path / "quantizer.safetensors")


def test_codebooks_faiss_learned() -> None:
    pq = faiss.IndexPQ(DIM, 4, 4)
    opq = faiss.OPQMatrix(DIM, 4)
    opq.niter = 3
    rq = faiss.IndexResidualQuantizer(DIM, 3, 4)
    whole = faiss.IndexPreTransform(opq, faiss.IndexPQ(DIM, 4, 4))
    x = gaussian(2000).numpy()
    for index in (pq, whole, rq):
        index.train(x)
        index.add(x[:100])
        ours = from_faiss(index)
        theirs = torch.from_numpy(index.reconstruct_n(0, 100))
        mean = (torch.from_numpy(x[:100]) - theirs).square().sum(dim=1).mean()
        assert ours.error(torch.from_numpy(x[:100])) == pytest.approx(
            float(mean), rel=1e-3 if index is not rq else 0.1
        )
    assert isinstance(from_faiss(whole), OptimizedProductQuantizer)


def test_what_has_no_codebooks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="IndexFlatL2 has no codebooks"):
        from_faiss(faiss.IndexFlatL2(4))
    with pytest.raises(InputError, match="there is no file"):
        from_faiss(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileFormatError, match="is not a FAISS index"):
        from_faiss(tmp_path / "text")


@pytest.mark.parametrize("room", [0, 100, 3000])
def test_a_full_disk_is_a_sentence_and_leaves_no_file(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAISS's own writer says nothing where the last bytes find no room."""
    index = ExhaustiveIndex(fitted("pq")).add(clustered(5000))
    real = Path.open

    def small(path: Path, *words: Any, **options: Any) -> Any:
        file = real(path, *words, **options)
        return Small(file, room) if "wb" in words else file

    monkeypatch.setattr(Path, "open", small)
    with pytest.raises(InputError, match="No space left"):
        write_faiss(index, tmp_path / "x.faiss")
    assert list(tmp_path.iterdir()) == []


class Small:
    """A file on a disk with room for a few bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytes) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return int(self.file.write(data))

    def flush(self) -> None:
        self.file.flush()

    def __enter__(self) -> "Small":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

"""Hashers and SQ in an index, ready hashes beside them, and items as queries."""

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from gradsnap.coders import CODERS, HASHERS, Coder, hamming_distances, unpacked_bits
from gradsnap.coders.hashers import RandomHasher, WeightedHasher
from gradsnap.coders.quantizers import QUANTIZERS, ResidualQuantizer
from gradsnap.errors import FileFormatError, InputError
from gradsnap.index import (
    INDEXES,
    ExhaustiveIndex,
    HalfPrecision,
    HammingIndex,
    InvertedIndex,
    LongerCode,
    folder_reading,
    load_index,
)
from gradsnap.index.lists import ListedIndex
from tests.conftest import DIM, clustered, fitted
from tests.index_builders import OVER_QUANTIZERS, made

X = clustered(150, dim=32, seed=1)
LABELS = torch.arange(150) % 3
QUERIES = clustered(9, dim=32, seed=2)
LISTED = [kind for kind, one in INDEXES.items() if issubclass(one, ListedIndex)]


@functools.cache
def fitted_coder(kind: str, bits: int = 16) -> Coder:
    """Fitted once, and not to be changed."""
    dim = CODERS[kind].dim_of_bits(bits)
    x = X if dim is None else X[:, :dim]
    return CODERS[kind].of_bits(x.shape[1], bits).fit(x, LABELS)


def nearest(distances: Tensor) -> Any:
    """Each row ascending; equal ones by position."""
    return distances.sort(dim=1, stable=True)


# --- every coder ----------------------------------------------------------------


@pytest.mark.parametrize("kind", list(CODERS))
def test_an_exhaustive_index_takes_every_coder(kind: str, tmp_path: Path) -> None:
    coder = fitted_coder(kind)
    x, queries = X[:, : coder.dim], QUERIES[:, : coder.dim]
    index = ExhaustiveIndex(coder).add(x)
    assert not index.learns
    exact = coder.distances(queries, coder.encode(x)).float()
    wanted = nearest(exact)
    index.save(tmp_path / "index")
    for each in (index, load_index(tmp_path / "index", coder)):
        found = each.search(queries, 20)
        for expected in (wanted.values[:, :20], exact.gather(1, found.ids)):
            torch.testing.assert_close(found.distances, expected, atol=1e-4, rtol=1e-4)
        if coder.hamming_levels is not None:
            assert torch.equal(found.ids, wanted.indices[:, :20])
            assert torch.equal(found.distances, wanted.values[:, :20])
    again = load_index(tmp_path / "index").coder
    assert type(again) is type(coder)
    assert again.fingerprint() == coder.fingerprint()
    with pytest.raises(InputError, match="was made with another coder"):
        load_index(tmp_path / "index", RandomHasher(coder.dim, 9).fit(x))


def test_cross_terms_of_rare_codes_count() -> None:
    """Most pairs of codewords have none: a look at some codes must not settle it."""
    quantizer = ResidualQuantizer(DIM, 2, 256)
    quantizer.codebooks.zero_()
    quantizer.codebooks[:, 7] = 1.0
    quantizer.fitted.fill_(True)
    codes, queries = torch.tensor([[7, 7], [7, 0], [0, 0]]), clustered(4)
    found = ExhaustiveIndex(quantizer).add_codes(codes).search(queries, 3)
    exact = torch.cdist(queries, quantizer.decode(codes)).square()
    torch.testing.assert_close(found.distances, exact.sort(dim=1).values)


@pytest.mark.parametrize("kind", ["pq", "itq", "weighted", "sq", "lopq"])
def test_fit_passes_labels_on(kind: str) -> None:
    index = ExhaustiveIndex(CODERS[kind].of_bits(32, 16))
    assert index.learns
    if index.coder.supervised:
        with pytest.raises(InputError, match="is supervised: fit needs labels"):
            index.fit(X)
    index.fit(X, LABELS)
    before = index.coder.fingerprint()
    assert not index.learns
    assert index.fit(X + 1).coder.fingerprint() == before


@pytest.mark.parametrize("index_kind", LISTED)
def test_lists_need_a_quantizer(index_kind: str) -> None:
    for kind, said in (("lsh", "a RandomHasher makes bits"), ("sq", "cannot decode")):
        coder = fitted_coder(kind)
        with pytest.raises(InputError, match=rf"lists need a quantizer.*{said}: cho"):
            INDEXES[index_kind].of_size(coder, 100)


def test_a_changed_hasher_is_refused() -> None:
    hasher = RandomHasher(32, 12).fit(X)
    index = ExhaustiveIndex(hasher).add(X)
    hasher.directions.neg_()
    with pytest.raises(InputError, match="RandomHasher changed since items were added"):
        index.add(X)


# --- ready hashes ---------------------------------------------------------------


@pytest.mark.parametrize("bits", [12, 16, 20, 64])
def test_ready_hashes_are_compared_as_the_hasher_does(bits: int) -> None:
    hasher = RandomHasher(32, bits).fit(X)
    hashes, asked = hasher.encode(X), hasher.encode(QUERIES)
    wanted = nearest(hamming_distances(asked, hashes))
    ready = HammingIndex(bits).add(hashes).search(asked, 150)
    ours = ExhaustiveIndex(hasher).add(X).search(QUERIES, 150)
    for found in (ready, ours):
        assert torch.equal(found.ids, wanted.indices)
        assert torch.equal(found.distances, wanted.values)


@pytest.mark.parametrize("bits", [12, 16, 20])
def test_weights_count(bits: int, tmp_path: Path) -> None:
    hasher = WeightedHasher(32, bits, hasher="lsh").fit(X, LABELS)
    ours = ExhaustiveIndex(hasher).add(X).search(QUERIES, 40)
    index = HammingIndex(bits, weights=hasher.weights).add(hasher.encode(X))
    index.save(tmp_path / "index")
    for each in (index, load_index(tmp_path / "index")):
        ready = each.search(hasher.encode(QUERIES), 40)
        assert torch.equal(ours.ids, ready.ids)
        assert torch.equal(ours.distances, ready.distances)
    items, queries = (unpacked_bits(hasher.encode(rows), bits) for rows in (X, QUERIES))
    weights = hasher.weights.tolist()
    for query, row in zip(queries, ours.distances.tolist(), strict=True):
        sums = [
            sum(weights[bit] for bit in range(bits) if query[bit] != item[bit])
            for item in items
        ]
        assert row == pytest.approx(sorted(sums)[:40], rel=1e-5, abs=1e-5)


def test_hashes_of_the_other_bit_order_are_refused(tmp_path: Path) -> None:
    index = HammingIndex(12).add(RandomHasher(32, 12).fit(X).encode(X))
    index.save(tmp_path / "index")
    content = folder_reading.read_manifest(tmp_path / "index")
    assert content["config"] == {"bits": 12, "bit_order": "little"}
    del content["config"]["bit_order"]
    folder_reading.write_manifest(tmp_path / "index", content)
    with pytest.raises(FileFormatError, match=r"highest bit first.*unpackbits\(rows"):
        load_index(tmp_path / "index")


# --- items as queries -----------------------------------------------------------


@pytest.mark.parametrize("kind", list(HASHERS) + list(QUANTIZERS))
def test_items_are_found_by_their_codes(kind: str) -> None:
    coder = fitted_coder(kind)
    x = X[:, : coder.dim]
    index = ExhaustiveIndex(coder).add(x)
    codes = coder.encode(x)
    entries = coder.code_tables(codes[:5])
    found = index.search_items(range(5), 30)
    for row in range(5):
        own = [
            float(entries.offsets[row])
            + sum(float(entries.entries[row, m, w]) for m, w in enumerate(code))
            for code in codes.tolist()
        ]
        exact = torch.tensor(own) + coder.cross_terms(codes)
        wanted = exact.sort().values[:30].clamp_min(0)
        torch.testing.assert_close(
            found.distances[row], wanted, atol=1e-3 * float(exact.max()), rtol=1e-4
        )
    if kind != "cq":  # whose distances take the cross term for constant
        assert float(found.distances[:, 0].max()) < 1e-4
    with pytest.raises(InputError, match="1 of 1 ids are not in the index"):
        index.search_items([900], 3)


@pytest.mark.parametrize(
    ("index_kind", "residual"), list(itertools.product(OVER_QUANTIZERS, [False, True]))
)
def test_four_bit_codes_in_two_segments(
    index_kind: str, residual: bool, tmp_path: Path
) -> None:
    """An id of one segment leaves no rows to unpack in the other."""
    index = made(index_kind, fitted("pq"), residual)
    names = [f"{i}.jpg" for i in range(60)]
    index.add(clustered(40, seed=1), names[:40]).save(tmp_path / "index")
    index = load_index(tmp_path / "index")
    index.add(clustered(20, seed=3), names[40:]).save(tmp_path / "index")
    index = load_index(tmp_path / "index")
    assert len(index.items.segments) == 2
    for name in ("3.jpg", "55.jpg"):
        found = index.search_items([name], 4)
        assert found.distances[0, 0] < 1e-4
        by_vector = index.search(index.reconstruct([name]), 4)
        torch.testing.assert_close(found.distances, by_vector.distances)
        same = found.ids[0] == by_vector.ids[0]
        assert same or float(found.distances.diff().min()) < 1e-4
        twins = index.search_items([name], 60).distances[0] < 1e-4
        assert name in index.search_items([name], int(twins.sum())).ids[0]
    only = index.search_items(["3.jpg", "4.jpg"], 2, within=["3.jpg", "50.jpg"])
    assert [set(row) for row in only.ids] == [{"3.jpg", "50.jpg"}] * 2


def test_items_are_ranked_again_by_what_is_kept() -> None:
    x = clustered(80, seed=1)
    longer = fitted("rvq", num_codebooks=6)
    for refiner, kept in (
        (HalfPrecision(DIM), x.half().float()),
        (LongerCode(longer), longer(x)),
    ):
        index = ExhaustiveIndex(fitted("pq"), refiner=refiner).add(x)
        found = index.search_items([7, 30], 5, rerank=80)
        exact = torch.cdist(kept[[7, 30]].double(), kept.double()).square()
        wanted = exact.sort(dim=1).values[:, :5].float()
        torch.testing.assert_close(found.distances, wanted, atol=1e-4, rtol=0)
        assert found.ids[:, 0].tolist() == [7, 30]
    short = LongerCode(RandomHasher(DIM, 64).fit(x))
    index = ExhaustiveIndex(fitted("pq"), refiner=short).add(x)
    hashes = short.coder.encode(x)
    wanted = hamming_distances(hashes[:2], hashes).sort(dim=1).values[:, :6]
    assert torch.equal(index.search(x[:2], 6, rerank=80).distances, wanted)
    assert torch.equal(index.search_items([0, 1], 6, rerank=80).distances, wanted)


def test_hashes_have_no_vectors() -> None:
    index = HammingIndex(16).add(RandomHasher(32, 16).fit(X).encode(X))
    assert index.search_items([3], 1).distances.item() == 0
    with pytest.raises(InputError, match="stand for no vectors: search_items finds"):
        index.reconstruct([3])


# --- sizes ----------------------------------------------------------------------


def test_sizes_suit_the_number_of_items() -> None:
    quantizer = fitted("pq")
    sizes = {kind: INDEXES[kind].of_size(quantizer, 10_000) for kind in OVER_QUANTIZERS}
    assert {kind: one.num_lists for kind, one in sizes.items()} == {
        "exhaustive": None,
        "inverted": 100,
        "multi": 256,
        "local": 100,
    }
    assert INDEXES["inverted"].of_size(quantizer, 20, num_lists=64).num_lists == 20
    assert INDEXES["multi"].of_size(quantizer, 20, num_lists=64).num_lists == 64
    for kind in OVER_QUANTIZERS:
        tiny = INDEXES[kind].of_size(quantizer, 1)
        assert tiny.learns == (kind != "exhaustive")
        tiny.fit(clustered(20)).add(clustered(1))
        assert tiny.search(clustered(1), 1).ids.tolist() == [[0]]


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (
            "exhaustive",
            {"num_lists": 8},
            "--lists is for an index with lists; this one is exh",
        ),
        ("exhaustive", {"residual": True}, "--residual is for an index with lists"),
        ("local", {"residual": True}, "always codes residuals: leave out --residual"),
        ("multi", {"num_lists": 100}, "--lists must be a power of four.* got 100"),
        ("multi", {"num_lists": 1}, "--lists must be a power of four.* got 1"),
        ("hamming", {}, "takes hashes that are ready; with a coder choose kind exh"),
    ],
)
def test_what_a_kind_has_no_use_for(
    kind: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        INDEXES[kind].of_size(fitted("pq"), 1000, **options)


def test_fit_learns_only_what_is_not_there() -> None:
    x = clustered(200)
    own = InvertedIndex(fitted("pq"), centroids=x[:5])
    assert not own.learns
    assert torch.equal(own.fit(x).lists_of(x[:5]), torch.arange(5))
    coarse = QUANTIZERS["pq"](DIM, 2, 4).fit(x)
    before = coarse.fingerprint()
    multi: Any = INDEXES["multi"]
    index = multi(QUANTIZERS["pq"](DIM, 2, 4), coarse=coarse)
    assert index.learns
    assert index.fit(clustered(90, seed=4)).coarse.fingerprint() == before
    assert not index.learns


# --- folders of before ----------------------------------------------------------


FIRST_IDS = [
    ["photos/02.jpg", "photos/15.jpg", "photos/09.jpg", "photos/18.jpg"],
    ["photos/07.jpg", "photos/18.jpg", "photos/11.jpg", "photos/17.jpg"],
]
FIRST_DISTANCES = [
    [1.86354, 1.86354, 2.58788, 21.66398],
    [17.8204, 18.14006, 31.7152, 33.15192],
]


def test_a_folder_of_the_first_version_opens(tmp_path: Path) -> None:
    """Written at 0.1.0.dev0: its coder's file is called a quantizer's there."""
    folder = Path(__file__).parent / "fixtures" / "index-v1"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert list(manifest["parts"]) == ["quantizer"]
    index = load_index(folder, verify=True)
    found = index.search(clustered(5, seed=2), 4)
    assert found.ids[:2] == FIRST_IDS
    torch.testing.assert_close(found.distances[:2], torch.tensor(FIRST_DISTANCES))
    assert index.metadata(["photos/01.jpg", "photos/15.jpg"]) == [
        {"label": "dog"},
        {"label": "owl"},
    ]
    with pytest.raises(InputError, match=r"the first is 'photos/03\.jpg'"):
        index.search_items(["photos/03.jpg"], 1)
    index.save(tmp_path / "copy")
    again = load_index(tmp_path / "copy")
    assert again.search(clustered(5, seed=2), 4).ids == found.ids
    assert again.origin is not None
    assert list(again.origin.manifest["parts"]) == ["coder"]

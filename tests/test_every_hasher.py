"""What is true of every hasher, beyond what is true of every coder; and packing."""

import faiss
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradsnap.coders import hamming_distances, packed_bits, unpacked_bits
from gradsnap.coders.hamming import bit_tables
from gradsnap.coders.hashers import Hasher
from gradsnap.coders.packing import bytes_of, pack, unpack
from gradsnap.coders.tables import sums_of_all
from gradsnap.errors import InputError
from gradsnap.evaluation import CodeDistances, HashDistances, RankingRules, evaluate
from tests.conftest import classes, gaussian, made_coder, several

RULES = RankingRules(None, "relevant", "zero")


def measured(hasher: Hasher, labels: Tensor, x: Tensor) -> float:
    """MAP by the hasher's own distances, which may be weighted."""
    table = CodeDistances(hasher, x[::4], hasher.encode(x))
    return evaluate(table, labels[::4], labels, RULES, graded=False).map


def random_bits(rows: int, bits: int, seed: int = 0) -> Tensor:
    return gaussian(rows, bits, seed) > 0


# --- bits -----------------------------------------------------------------------


def test_every_bit_is_used(hasher: Hasher) -> None:
    x, _ = classes(400, seed=1)
    share = unpacked_bits(hasher.encode(x), hasher.bits).float().mean(dim=0)
    assert (share > 0.02).all()
    assert (share < 0.98).all()


def test_beats_random_hashes_on_clusters(hasher: Hasher) -> None:
    x, labels = classes(400, seed=1)
    random = packed_bits(random_bits(400, hasher.bits))
    chance = evaluate(HashDistances(random[::4], random), labels[::4], labels, RULES)
    least = chance.map + (0.15 if hasher.supervised else 0.01)
    assert measured(hasher, labels, x) > least


def test_several_labels_are_learned(hasher_kind: str) -> None:
    x, labels = classes(160)
    hasher = made_coder(hasher_kind).fit(x, several(labels))
    assert isinstance(hasher, Hasher)
    unseen, theirs = classes(200, seed=2)
    value = measured(hasher, several(theirs), unseen)
    if hasher.supervised:
        shared = several(theirs).float() @ several(theirs).float().T > 0
        assert value > float(shared.float().mean()) + 0.1


@pytest.mark.parametrize("bits", [1, 8, 9, 20])
def test_hashes_fill_whole_bytes(hasher_kind: str, bits: int) -> None:
    dim = max(bits, 12) if hasher_kind != "sign" else bits
    x, labels = gaussian(60, dim), torch.arange(60) % 3
    hasher = made_coder(hasher_kind, bits, dim=dim).fit(x, labels)
    hashes = hasher.encode(x)
    assert hashes.shape == (60, -(-bits // 8))
    assert hashes.dtype == torch.uint8
    assert torch.equal(packed_bits(unpacked_bits(hashes, bits)), hashes)


def test_blocks_change_nothing(hasher: Hasher, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = classes(30, seed=3)
    together = hasher.encode(x)
    monkeypatch.setattr("gradsnap.coders.hashers.hasher.ENCODE_ROWS", 7)
    assert torch.equal(hasher.encode(x), together)


def test_rows_that_are_all_equal_do_no_harm(hasher_kind: str) -> None:
    """The anchors are alike too, so that there is no leading direction."""
    x = torch.ones(80, 12)
    many = {"num_anchors": 70} if hasher_kind in ("ksh", "sdh") else {}
    hasher = made_coder(hasher_kind, **many).fit(x, torch.arange(80) % 2)
    assert not any(bool(one.isnan().any()) for one in hasher.state_dict().values())
    assert len(hasher.encode(x).unique(dim=0)) == 1


# --- packing --------------------------------------------------------------------


@given(st.lists(st.lists(st.booleans(), min_size=11, max_size=11), max_size=5))
def test_packing_of_bits_round_trip(rows: list[list[bool]]) -> None:
    signs = torch.tensor(rows, dtype=torch.bool).view(-1, 11)
    packed = packed_bits(signs)
    assert torch.equal(unpacked_bits(packed, 11), signs)
    wanted = np.packbits(signs.numpy(), axis=1, bitorder="little")
    assert np.array_equal(packed.numpy(), wanted)
    assert np.array_equal(pack(signs.numpy(), 2), packed.numpy())


@pytest.mark.parametrize("num_codebooks", [1, 3, 4, 7])
@pytest.mark.parametrize("bits", range(1, 17))
def test_packing_of_codes_round_trip(bits: int, num_codebooks: int) -> None:
    size = 2**bits
    generator = np.random.default_rng(bits)
    codes = generator.integers(0, size, (24, num_codebooks))
    packed = pack(codes, size)
    assert packed.shape == (24, bytes_of(num_codebooks, size))
    assert packed.dtype == np.uint8
    found = unpack(packed, num_codebooks, size)
    assert found.dtype == (np.uint8 if bits <= 8 else np.uint16)
    assert np.array_equal(found, codes)
    deep = unpack(packed.reshape(2, 3, 4, -1), num_codebooks, size)
    assert np.array_equal(deep, codes.reshape(2, 3, 4, num_codebooks))
    none = unpack(pack(codes[:0], size), num_codebooks, size)
    assert none.shape == (0, num_codebooks)
    assert pack(codes[:0], size).shape == (0, bytes_of(num_codebooks, size))


@pytest.mark.parametrize("bits", [1, 4, 5, 8, 10, 12, 16])
def test_packed_codes_are_those_of_faiss(bits: int) -> None:
    theirs = faiss.ProductQuantizer(6, 3, bits)
    words = gaussian(3 * 2**bits, 2).numpy()
    faiss.copy_array_to_vector(words.ravel(), theirs.centroids)
    x = gaussian(20, 6, seed=1)
    packed = theirs.compute_codes(x.numpy())
    assert packed.shape[1] == bytes_of(3, 2**bits)
    codes = unpack(packed, 3, 2**bits)
    books = torch.from_numpy(words).view(3, 2**bits, 2)
    for m in range(3):
        nearest = torch.cdist(x[:, 2 * m : 2 * m + 2], books[m]).argmin(dim=1)
        assert np.array_equal(codes[:, m], nearest.numpy())
    assert np.array_equal(pack(codes, 2**bits), packed)


def test_packing_refusals() -> None:
    byte = torch.ones(2, 1, dtype=torch.uint8)
    with pytest.raises(InputError, match="expected bits as bool"):
        packed_bits(torch.ones(2, 3))
    with pytest.raises(InputError, match="1 bytes hold no hash of 9 bits"):
        unpacked_bits(byte, 9)
    with pytest.raises(InputError, match="expected packed hashes"):
        unpacked_bits(torch.ones(2, 1), 3)
    with pytest.raises(InputError, match="2 bytes a hash, the database 1"):
        HashDistances(byte.repeat(1, 2), byte)
    with pytest.raises(InputError, match=r"at most 8 weights .* got 9"):
        bit_tables(byte, torch.ones(9))


# --- Hamming distance -----------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 8, 12, 20, 64])
def test_tables_add_up_to_hamming_distances(bits: int) -> None:
    queries, items = random_bits(9, bits), random_bits(40, bits, seed=1)
    asked, hashes = packed_bits(queries), packed_bits(items)
    wanted = (queries[:, None] != items).sum(dim=2).float()
    assert torch.equal(hamming_distances(asked, hashes), wanted)
    entries, offsets = bit_tables(asked, torch.ones(bits))
    assert torch.equal(offsets, torch.zeros(9))
    assert torch.equal(sums_of_all(entries, hashes.long()), wanted)
    weights = torch.arange(bits) / 4  # exact in binary
    weighted = ((queries[:, None] != items) * weights).sum(dim=2)
    entries, _ = bit_tables(asked, weights)
    assert torch.equal(sums_of_all(entries, hashes.long()), weighted)


def test_equal_hashes_are_at_distance_zero_whatever_the_weights() -> None:
    hashes = packed_bits(random_bits(50, 12))
    entries, _ = bit_tables(hashes, torch.rand(12, generator=torch.Generator()))
    assert (entries >= 0).all()
    distances = sums_of_all(entries, hashes.long())
    same = (hashes[:, None] == hashes).all(dim=2)
    assert (distances[same] == 0).all()
    assert bit_tables(hashes[:0], torch.ones(12)).entries.shape == (0, 2, 256)


@pytest.mark.parametrize("bits", [12, 20, 64])
def test_hamming_distances_are_those_of_faiss(bits: int) -> None:
    width = -(-bits // 8)
    asked = packed_bits(random_bits(5, bits))
    hashes = packed_bits(random_bits(40, bits, seed=1))
    index = faiss.IndexBinaryFlat(8 * width)
    index.add(hashes.numpy())
    found, places = index.search(asked.numpy(), 40)
    ours = hamming_distances(asked, hashes)
    assert np.array_equal(found, ours.gather(1, torch.from_numpy(places)).numpy())

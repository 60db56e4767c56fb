"""The battery: what is true of every hasher in the registry, with no exceptions."""

import copy
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradsnap.coders.hashers import (
    HASHERS,
    Hasher,
    RandomHasher,
    load_coder,
    packed_bits,
    unpacked_bits,
)
from gradsnap.errors import FileFormatError, InputError, NotFittedError
from gradsnap.evaluation import HashDistances, RankingRules, evaluate
from tests.conftest import gaussian

DIM, BITS, ROWS = 10, 6, 160
RULES = RankingRules(None, "relevant", "zero")
QUICK = {"anchors": 40, "iterations": 4, "trees": 4}


def classes(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of four classes, each of two far clusters, under directions of noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 4
    part = torch.randint(2, (rows,), generator=generator)
    x = torch.randn(rows, DIM, generator=generator)
    x[:, :4] *= 3  # the widest directions say nothing
    x[:, 4:] += 3 * gaussian(8, DIM - 4, seed=99)[2 * labels + part]
    return x, labels


def several(labels: Tensor) -> Tensor:
    """Two of five labels an item; neighbours share one."""
    places = torch.arange(5)
    return (places == labels[:, None]) | (places == labels[:, None] + 1)


def made(kind: str, **changes: float) -> Hasher:
    config = HASHERS[kind](DIM, BITS).config()
    quick = {name: value for name, value in QUICK.items() if name in config}
    options = {"dim": DIM, "bits": BITS} | quick | changes
    return HASHERS[kind](**options)  # type: ignore[arg-type]


@functools.cache
def _fitted(kind: str) -> Hasher:
    return made(kind).fit(*classes(ROWS))


@pytest.fixture(params=list(HASHERS))
def hasher_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hasher(hasher_kind: str) -> Hasher:
    return copy.deepcopy(_fitted(hasher_kind))


def measured(hasher: Hasher, labels_of: Tensor, x: Tensor) -> float:
    hashes = hasher.encode(x)
    table = HashDistances(hashes[::4], hashes)
    return evaluate(table, labels_of[::4], labels_of, RULES, graded=False).map


# --- fit ------------------------------------------------------------------------


def test_fit_returns_self_and_forgets_and_repeats(hasher_kind: str) -> None:
    x, labels = classes(ROWS)
    hasher = made(hasher_kind)
    assert not hasher.fitted
    assert hasher.fit(5 + gaussian(50, DIM), torch.arange(50) % 3) is hasher
    hasher.fit(x, labels)
    once = _fitted(hasher_kind)
    for name, value in once.state_dict().items():
        assert torch.equal(value, hasher.state_dict()[name]), name
    assert torch.equal(once.encode(x), hasher.encode(x))


def test_global_random_state_and_input_are_untouched(hasher_kind: str) -> None:
    x, labels = classes(ROWS)
    before, state = x.clone(), torch.get_rng_state()
    numpy_state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    made(hasher_kind).fit(x, labels).encode(x)
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), state)
    numpy_after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert np.array_equal(numpy_after["key"], numpy_state["key"])


def test_every_bit_is_used(hasher: Hasher) -> None:
    x, _ = classes(400, seed=1)
    share = unpacked_bits(hasher.encode(x), BITS).float().mean(dim=0)
    assert (share > 0.02).all()
    assert (share < 0.98).all()


def test_beats_random_hashes_on_clusters(hasher: Hasher) -> None:
    x, labels = classes(400, seed=1)
    random = packed_bits(torch.rand(400, BITS, generator=torch.Generator()) < 0.5)
    table = HashDistances(random[::4], random)
    chance = evaluate(table, labels[::4], labels, RULES).map
    least = chance + (0.2 if hasher.supervised else 0.01)
    assert measured(hasher, labels, x) > least


def test_several_labels_are_learned(hasher_kind: str) -> None:
    x, labels = classes(ROWS)
    many = several(labels)
    hasher = made(hasher_kind).fit(x, many)
    unseen, theirs = classes(200, seed=2)
    value = measured(hasher, several(theirs), unseen)
    if hasher.supervised:
        shared = several(theirs).float() @ several(theirs).float().T > 0
        assert value > float(shared.float().mean()) + 0.1


# --- encode ---------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 8, 9])
def test_hashes_have_their_type_and_length(hasher_kind: str, bits: int) -> None:
    x, labels = classes(60)
    hashes = made(hasher_kind, bits=bits).fit(x, labels).encode(x)
    assert hashes.shape == (60, -(-bits // 8))
    assert hashes.dtype == torch.uint8
    if bits % 8:
        assert int(hashes[:, -1].max()) < 2 ** (bits % 8)


def test_rows_are_hashed_alone(hasher: Hasher) -> None:
    x, _ = classes(30, seed=3)
    together = hasher.encode(x)
    assert torch.equal(torch.cat([hasher.encode(row[None]) for row in x]), together)
    assert hasher.encode(x[:0]).shape == (0, 1)
    assert torch.equal(hasher.encode(x.double()), together)


def test_blocks_change_nothing(hasher: Hasher, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = classes(30, seed=3)
    together = hasher.encode(x)
    monkeypatch.setattr("gradsnap.coders.hashers.hasher.ENCODE_ROWS", 7)
    assert torch.equal(hasher.encode(x), together)


# --- files ----------------------------------------------------------------------


def test_saved_and_loaded(hasher: Hasher, tmp_path: Path) -> None:
    x, _ = classes(50, seed=4)
    hasher.save(tmp_path / "hasher")
    again = load_coder(tmp_path / "hasher")
    assert type(again) is type(hasher)
    assert again.config() == hasher.config()
    assert torch.equal(again.encode(x), hasher.encode(x))


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        load_coder(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileFormatError, match="truncated or not"):
        load_coder(tmp_path / "text")
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "other", {"format": "else"})
    with pytest.raises(FileFormatError, match="its format is 'else'"):
        load_coder(tmp_path / "other")
    metadata = {"format": "gradsnap-hasher-1", "kind": "lsh", "config": '{"dim": 3}'}
    save_file({"x": torch.zeros(1)}, tmp_path / "changed", metadata)
    with pytest.raises(FileFormatError, match="does not fit a lsh"):
        load_coder(tmp_path / "changed")

    class Unknown(RandomHasher):
        pass

    with pytest.raises(InputError, match="in no registry"):
        Unknown(DIM, BITS).save(tmp_path / "unknown")
    with pytest.raises(InputError, match="does not exist"):
        _fitted("lsh").save(tmp_path / "no" / "folder")


# --- what is refused ------------------------------------------------------------


def test_bad_input(hasher_kind: str, hasher: Hasher) -> None:
    x, labels = classes(20)
    fresh = made(hasher_kind)
    with pytest.raises(NotFittedError, match="no hash functions yet"):
        fresh.encode(x)
    with pytest.raises(InputError, match=r"shape \(n, 10\), got \(20, 9\)"):
        hasher.encode(x[:, :9])
    with pytest.raises(InputError, match="NaN"):
        fresh.fit(x * torch.nan, labels)
    with pytest.raises(InputError, match="at least two rows; got 1"):
        fresh.fit(x[:1], labels[:1])
    with pytest.raises(InputError, match="must be at least 1"):
        made(hasher_kind, bits=0)
    if not hasher.supervised:
        return
    with pytest.raises(InputError, match="is supervised"):
        fresh.fit(x)
    with pytest.raises(InputError, match="at least two classes"):
        fresh.fit(x, 0 * labels)
    with pytest.raises(InputError, match="one label for each of 20 rows"):
        fresh.fit(x, labels[:3])


def test_config_is_shown(hasher: Hasher) -> None:
    assert "bits=6" in repr(hasher)


# --- packing --------------------------------------------------------------------


@given(st.lists(st.lists(st.booleans(), min_size=11, max_size=11), max_size=5))
def test_packing_round_trip(rows: list[list[bool]]) -> None:
    signs = torch.tensor(rows, dtype=torch.bool).view(-1, 11)
    packed = packed_bits(signs)
    assert torch.equal(unpacked_bits(packed, 11), signs)
    wanted = np.packbits(signs.numpy(), axis=1, bitorder="little")
    assert np.array_equal(packed.numpy(), wanted)


def test_packing_refusals() -> None:
    with pytest.raises(InputError, match="expected bits as bool"):
        packed_bits(torch.ones(2, 3))
    with pytest.raises(InputError, match="1 bytes hold no hash of 9 bits"):
        unpacked_bits(torch.ones(2, 1, dtype=torch.uint8), 9)
    with pytest.raises(InputError, match="expected packed hashes"):
        unpacked_bits(torch.ones(2, 1), 3)
    with pytest.raises(InputError, match="2 bytes a hash, the database 1"):
        HashDistances(
            torch.ones(2, 2, dtype=torch.uint8), torch.ones(2, 1, dtype=torch.uint8)
        )

"""Small tables for 32 codes at once: what they leave out is too far."""

import numpy as np
import pytest
import torch

from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.index import InvertedIndex, MultiIndex, item_store, lists, scanning
from gradsnap.index.columns import words_of
from gradsnap.index.shuffles import NO_BLOCKS, blocks_of
from gradsnap.index.shuffles_compiled import (
    BYTES,
    HAS_SHUFFLE,
    SIDE_BY_SIDE,
    limit_of,
    living,
    lows_of,
    near,
    near_plainly,
    scale_of,
    shrink,
)

DIM, ITEMS = 32, 6000

needs_shuffle = pytest.mark.skipif(not HAS_SHUFFLE, reason="no AVX2")


def random_blocks(count: int) -> np.ndarray:
    shape = (count, BYTES, SIDE_BY_SIDE)
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_bits_say_which_items_count(count: int, share: float) -> None:
    alive = np.random.default_rng(count).random(count) < share
    for first in range(count):
        some = alive[first : first + SIDE_BY_SIDE]
        expected = sum(1 << i for i, counts in enumerate(some) if counts)
        assert living(alive, first) == expected
    assert living(np.empty(0, dtype=bool), 5) == 2**64 - 1


def test_instructions_do_what_the_plain_loop_does() -> None:
    rng, blocks = np.random.default_rng(1), random_blocks(20)
    for most in (2, 30, 256):
        small = rng.integers(0, most, (2 * BYTES, 16), dtype=np.uint8)
        for at in range(len(blocks)):
            for limit in (0, 8, 100, 225, 254, 255):
                mask = near(blocks, at, small, limit)
                assert mask == near_plainly(blocks, at, small, limit)


@pytest.mark.parametrize("shift", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("books", [3, 16])
def test_nothing_as_near_as_the_limit_is_left_out(
    shift: float, scale: float, books: int
) -> None:
    rng, blocks = np.random.default_rng(2), random_blocks(8)
    table = (scale * (rng.random((books, 16)) ** 4 + shift)).astype(np.float32)
    codes = np.stack([blocks & 15, blocks >> 4], axis=2).reshape(8, 16, SIDE_BY_SIDE)
    sums = table[0, codes[:, 0]]
    for m in range(1, books):
        sums = sums + table[m, codes[:, m]]  # in the order of a scan
    lows, small = np.empty(books, np.float32), np.zeros((16, 16), np.uint8)
    low = lows_of(table, lows)
    for worst in np.sort(sums.ravel())[::16]:
        factor = scale_of(worst, low)
        shrink(table, lows, factor, small)
        limit = limit_of(worst, low, factor)
        for at in range(len(blocks)):
            mask = int(near(blocks, at, small, limit))
            found = np.array([mask >> i & 1 for i in range(SIDE_BY_SIDE)], dtype=bool)
            assert found[sums[at] <= worst].all()


@needs_shuffle
def test_blocks_are_the_bytes_side_by_side() -> None:
    coder = ProductQuantizer(DIM, 16, 16)
    coder.codebooks.normal_(generator=torch.Generator().manual_seed(0))
    packed = np.random.default_rng(3).integers(0, 256, (70, 8), dtype=np.uint8)
    blocks = blocks_of(words_of(packed, coder))
    rows = blocks.transpose(0, 2, 1).reshape(-1, 8)
    assert np.array_equal(rows[:70], packed)
    assert not rows[70:].any()
    assert blocks_of(np.empty(0, np.uint64)).size == 0


def listed(kind: str, x: torch.Tensor) -> InvertedIndex | MultiIndex:
    books = 7 if kind == "few codebooks" else 16
    quantizer = ProductQuantizer(DIM, books, 16)
    made: InvertedIndex | MultiIndex
    if kind == "multi-index":
        made = MultiIndex(quantizer.fit(x[:2000]), codewords=8, probes=20)
    elif kind == "residuals":
        made = InvertedIndex(quantizer, num_lists=16, probes=6, residual=True)
    else:
        made = InvertedIndex(quantizer.fit(x[:2000]), num_lists=16, probes=6)
    made.fit(x[:2000]).add(x)
    return made.remove(torch.arange(0, ITEMS, 7))


@needs_shuffle
@pytest.mark.parametrize(
    "kind", ["inverted", "residuals", "multi-index", "few codebooks"]
)
def test_results_are_those_of_the_other_scans(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ITEMS, DIM, generator=generator)
    x[3000:3300] = x[1]  # equal distances, ordered by id
    queries = torch.cat([x[1:2], torch.randn(20, DIM, generator=generator)])
    index = listed(kind, x)
    some = [place for place in range(1, 5000, 2) if place % 7]

    def results() -> list[torch.Tensor]:
        index.items._read.clear()
        found = [index.search(queries, 10), index.search(queries[:1], 10)]
        found += [index.search(queries[:3], 400), index.search(queries, 9, within=some)]
        return [part for one in found for part in (one.ids, one.distances)]

    shuffled = results()
    assert next(iter(index.items.columns())).blocks.size
    monkeypatch.setattr(item_store, "blocks_of", lambda words: NO_BLOCKS)
    assert all(map(torch.equal, shuffled, results()))
    for module in (scanning, lists):
        monkeypatch.setattr(module, "list_kernel", lambda: None)
    assert all(map(torch.equal, shuffled, results()))


@pytest.mark.parametrize(("worst", "low"), [(0.0, 0.0), (-1.0, -1.0), (1.0, 0.5)])
def test_a_scale_is_positive_whatever_the_tables_hold(worst: float, low: float) -> None:
    scale = scale_of(np.float32(worst), np.float32(low))
    assert 0 < scale < np.inf

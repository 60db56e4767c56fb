"""Products in order of dimension: the compiled loops, plain torch, and the formula."""

import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import OptimizedProductQuantizer, tiles
from gradsnap.coders.rotations import identity
from gradsnap.index import MultiIndex
from gradsnap.index.lists import ListedIndex
from tests.conftest import clustered


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dim", [1, 3, 64, 257, 600])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_rotating_is_a_product(
    dim: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, rotation = drawn(count, dim), torch.linalg.qr(drawn(dim, dim, seed=1))[0]
    found = tiles.rotated(x, rotation)
    torch.testing.assert_close(found, x @ rotation, rtol=1e-4, atol=1e-5)
    assert torch.equal(tiles.rotated(x[:1], rotation)[0], found[0])
    monkeypatch.setattr(tiles, "kernels", lambda name: None)
    assert torch.equal(tiles.rotated(x, rotation), found)


def test_a_product_is_added_up_in_the_order_of_dimension() -> None:
    x, rows = drawn(2, 5), drawn(3, 5, seed=1)
    expected = torch.ones(2, 3)
    for q in range(2):
        for r in range(3):
            for j in range(5):
                expected[q, r] -= x[q, j] * rows[r, j]
    assert torch.equal(tiles.less_products(torch.ones(2, 3), x, rows), expected)


def test_rows_lie_side_by_side() -> None:
    rows = drawn(300, 4)
    side_by_side = torch.from_numpy(tiles.in_tiles(rows))
    assert side_by_side.shape == (2, 4, tiles.TILE)
    assert torch.equal(side_by_side.transpose(1, 2).reshape(-1, 4)[:300], rows)
    assert not side_by_side[1, :, 300 - tiles.TILE :].any()


@pytest.mark.parametrize("num_codebooks", [4, 3], ids=["whole blocks", "padded blocks"])
def test_rotations_changed_in_place_are_noticed(
    num_codebooks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = clustered(400, 16)
    coder = OptimizedProductQuantizer(16, num_codebooks, 16)
    coarse = OptimizedProductQuantizer(16, 2, 8)
    index = MultiIndex(coder, coarse=coarse, probes=5).fit(x).add(x)
    before = index.search(x[:3], 5)
    for quantizer in (coarse, coder):
        with torch.no_grad():
            quantizer.rotation.copy_(identity(16).roll(1, 0))
        found = index.search(x[:3], 5)
        with monkeypatch.context() as patched:
            patched.setattr(ListedIndex, "_together", lambda self, rows: None)
            steps = index.search(x[:3], 5)
        assert torch.equal(found.ids, steps.ids)
        assert torch.equal(found.distances, steps.distances)
        assert not torch.equal(found.distances, before.distances)
        before = found

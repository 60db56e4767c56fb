"""The fused backward and the compiled update: what they give is what torch gives."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import gradsnap as gs
from gradsnap import compiled
from gradsnap.coders.quantizers import following, product
from gradsnap.coders.quantizers.kmeans import accumulate, assign, follow
from gradsnap.layers import fused, snapping
from tests.conftest import clustered, gaussian, needs_numba
from tests.test_snapping import backward

pytestmark = needs_numba

SHAPES = [
    pytest.param(6, 1, 8, 5, id="one codebook"),
    pytest.param(6, 1, 256, 150, id="one large codebook"),
    pytest.param(8, 2, 16, 40, id="two codebooks"),
    pytest.param(10, 3, 16, 60, id="blocks of unequal width"),
    pytest.param(24, 4, 64, 150, id="four codebooks"),
    pytest.param(16, 8, 32, 100, id="eight codebooks"),
    pytest.param(8, 4, 2, 16, id="all codewords"),
    pytest.param(8, 4, 16, 1, id="the nearest alone"),
    pytest.param(12, 3, 256, 2000, id="more than lists hold"),
]


def made(
    dim: int, num_codebooks: int, size: int, rows: int = 600
) -> gs.ProductQuantizer:
    return gs.ProductQuantizer(dim, num_codebooks, size).fit(clustered(rows, dim))


def in_torch(layer: gs.GradientSnapping, y: Tensor, g: Tensor) -> Tensor:
    """What the layer gives where it cannot be fused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapping, "can_fuse", lambda *given: False)
        return backward(layer, y, g)


def assert_alike(layer: gs.GradientSnapping, y: Tensor, g: Tensor) -> None:
    """Both ways give the same, but for rows where two codewords nearly tie."""
    twin = copy.deepcopy(layer)
    assert fused.can_fuse(layer.rule, layer.quantizer, g, y)
    found, expected = backward(layer, y, g), in_torch(twin, y, g)
    assert layer.last is not None
    assert twin.last is not None
    same = (layer.last.distance - twin.last.distance).abs() < 1e-4
    assert same.float().mean() >= 0.98
    torch.testing.assert_close(found[same], expected[same], rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(layer.last, twin.last, strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine[same], theirs[same], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dim", "num_codebooks", "size", "neighbors"), SHAPES)
@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_any_shape(dim, num_codebooks, size, neighbors, strength) -> None:
    layer = gs.GradientSnapping(
        made(dim, num_codebooks, size), neighbors, gs.SnappingRule(strength)
    )
    for rows in (8, 64, 200):
        y, g = clustered(rows, dim, seed=rows), gaussian(rows, dim, seed=rows + 1)
        assert_alike(layer, y, g)


@pytest.mark.parametrize("neighbors", [1, 7, 150, 700])
def test_any_number_of_neighbors(neighbors: int) -> None:
    layer = gs.GradientSnapping(made(24, 4, 64), neighbors)
    assert_alike(layer, clustered(64, 24, seed=3), gaussian(64, 24, seed=4))


@pytest.mark.parametrize("rejected", [None, 0.0, 0.7])
def test_rejected_rows(rejected: float | None) -> None:
    """A gradient that points away from the nearest word, and T = 1: nothing fits."""
    quantizer = made(8, 2, 16)
    rule = gs.SnappingRule(0.2, rejected_strength=rejected)
    layer, y = gs.GradientSnapping(quantizer, 1, rule), clustered(32, seed=5)
    g = quantizer(y) - y
    assert_alike(layer, y, g)
    assert layer.last is not None
    assert not layer.last.accepted.any()
    share = 0.2 if rejected is None else rejected
    torch.testing.assert_close(backward(layer, y, g), share * g)


def test_rows_that_no_candidate_suits() -> None:
    """All slopes are negative: the best of them is still that of torch."""
    quantizer = made(24, 4, 64)
    y = 3 * quantizer(clustered(64, 24, seed=7))  # beyond all codewords
    layer = gs.GradientSnapping(quantizer, 30)
    assert_alike(layer, y, -y)
    assert layer.last is not None
    assert not layer.last.accepted.any()


@pytest.mark.parametrize("k", [1, 2, 30, 99, 100])
@pytest.mark.parametrize("levels", [1, 2, 7, 10**6])
def test_exactly_so_many_sums_lie_within_the_limit(k: int, levels: int) -> None:
    """Few levels make ties, also at the limit."""
    from gradsnap.coders.quantizers.smallest_compiled import limit_of_smallest

    for seed in range(20):
        draw = np.random.default_rng(seed)
        sums = (draw.integers(levels, size=100) * 1e-3).astype(np.float32)
        given = sums.copy()
        limit = limit_of_smallest(given, len(given), k)
        left = given[given <= limit]
        assert np.array_equal(np.sort(left), np.sort(sums)[:k])


class TestEdges:
    def test_no_gradient(self) -> None:
        layer, y = gs.GradientSnapping(made(24, 4, 64)), clustered(32, 24, seed=6)
        g = torch.zeros_like(y)
        g[1] = 1.0
        assert_alike(layer, y, g)
        assert layer.last is not None
        nearest = (y - layer.quantizer(y)).norm(dim=1)  # on ties the nearest is taken
        torch.testing.assert_close(layer.last.distance[2:], nearest[2:])

    def test_rows_on_codewords(self) -> None:
        quantizer = made(24, 4, 64)
        y = quantizer(clustered(32, 24, seed=6))
        out = backward(gs.GradientSnapping(quantizer), y, gaussian(32, 24))
        assert out.isfinite().all()

    def test_equal_codewords(self) -> None:
        """Nothing but ties: every gap is zero."""
        quantizer = gs.ProductQuantizer(8, 2, 16).fit(torch.ones(20, 8))
        quantizer.codebooks.fill_(1.0)
        layer = gs.GradientSnapping(quantizer, 30)
        assert_alike(layer, clustered(16, seed=1), gaussian(16, seed=2))

    @pytest.mark.parametrize("rows", [0, 1, 7])
    def test_a_handful_of_rows_is_left_to_torch(self, rows: int) -> None:
        layer = gs.GradientSnapping(made(8, 2, 16), 20)
        y, g = clustered(rows, seed=1), gaussian(rows, seed=2)
        assert not fused.can_fuse(layer.rule, layer.quantizer, g, y)
        assert torch.equal(backward(layer, y, g), in_torch(layer, y, g))

    @pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
    @pytest.mark.parametrize("which", [0, 1])
    def test_what_has_no_square_is_left_to_torch(self, bad: float, which: int) -> None:
        given = [gaussian(16, seed=1), clustered(16, seed=2)]
        given[which][3, 1] = bad
        layer = gs.GradientSnapping(made(8, 2, 16), 20)
        assert not fused.can_fuse(layer.rule, layer.quantizer, *given)

    def test_rows_with_nan_are_passed_on_as_before(self) -> None:
        layer = gs.GradientSnapping(made(8, 2, 16), 20, nonfinite="pass")
        y, g = clustered(16, seed=2), gaussian(16, seed=1)
        clean = backward(layer, y, g)
        g[5, 1] = math.nan
        out, rest = backward(layer, y, g), torch.arange(16) != 5
        assert torch.equal(out[5].isnan(), g[5].isnan())
        torch.testing.assert_close(out[rest], clean[rest], rtol=1e-4, atol=1e-5)

    def test_other_kinds_are_left_to_torch(self) -> None:
        y, g = clustered(16, seed=2), gaussian(16, seed=1)
        quantizer, rule = made(8, 2, 16), gs.SnappingRule()
        assert fused.can_fuse(rule, quantizer, g, y)
        assert not fused.can_fuse(rule, quantizer, g.double(), y)
        assert not fused.can_fuse(rule, quantizer, g, y.bfloat16())
        assert not fused.can_fuse(gs.PrintedRule(), quantizer, g, y)
        flat = gs.SnappingRule(falloff=lambda d, s: torch.ones_like(d))
        assert not fused.can_fuse(flat, quantizer, g, y)
        assert not fused.can_fuse(rule, gs.ProductQuantizer(8, 2, 16), g, y)
        other = gs.OptimizedProductQuantizer(8, 2, 16).fit(clustered(200))
        assert not fused.can_fuse(rule, other, g, y)

    def test_strided_rows(self) -> None:
        layer = gs.GradientSnapping(made(8, 2, 16), 20)
        y, g = clustered(16, 16, seed=2)[:, ::2], gaussian(8, 16, seed=1).T
        assert torch.equal(layer.snap(g, y), layer.snap(g.clone(), y.clone()))

    def test_more_rows_than_tables_are_held_for(self) -> None:
        layer = gs.GradientSnapping(made(8, 4, 256, rows=2000), 50)
        y, g = clustered(2500, seed=2), gaussian(2500, seed=1)
        assert_alike(layer, y, g)

    @pytest.mark.parametrize("threads", [1, 3])
    def test_threads_share_the_rows(self, threads: int) -> None:
        layer = gs.GradientSnapping(made(24, 4, 64), 50)
        y, g = clustered(256, 24, seed=2), gaussian(256, 24, seed=1)
        expected, before = layer.snap(g, y), torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            torch.testing.assert_close(layer.snap(g, y), expected)
        finally:
            torch.set_num_threads(before)


# --- the update -----------------------------------------------------------------


def state(quantizer: gs.Quantizer) -> tuple[Tensor, Tensor]:
    return quantizer.codebooks.clone(), quantizer.counts.clone()


@pytest.mark.parametrize(("dim", "num_codebooks", "size"), [(10, 3, 16), (24, 4, 64)])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_an_update_is_that_of_torch_to_the_bit(
    dim, num_codebooks, size, decay, monkeypatch: pytest.MonkeyPatch
) -> None:
    quantizer = gs.ProductQuantizer(dim, num_codebooks, size, decay=decay)
    quantizer.fit(clustered(400, dim))
    twin = copy.deepcopy(quantizer)
    batches = [clustered(rows, dim, seed=rows) for rows in (0, 1, 30, 128, 500)]
    for batch in batches * 5:
        quantizer.update(batch)
    monkeypatch.setattr(following, "_kernels", lambda *tensors: None)
    for batch in batches * 5:
        twin.update(batch)
    for mine, theirs in zip(state(quantizer), state(twin), strict=True):
        assert torch.equal(mine, theirs)


def test_the_parts_are_those_of_k_means() -> None:
    x = clustered(100, 24)
    quantizer = made(24, 4, 64)
    blocks = quantizer.blocks(x)
    codes = assign(blocks, quantizer.codebooks)
    counts, sums = accumulate(blocks, codes, 64)
    batch = following.statistics(x, codes.T, 64, 6)
    assert torch.equal(batch[..., 0], counts)
    assert torch.equal(batch[..., 1:], sums)
    words, weights = state(quantizer)
    follow(words, weights, counts, sums, 0.9)
    following.follow_batch(quantizer.codebooks, quantizer.counts, batch, 0.9)
    assert torch.equal(quantizer.codebooks, words)
    assert torch.equal(quantizer.counts, weights)


def test_torch_is_told_that_codebooks_changed() -> None:
    quantizer = made(8, 2, 16)
    before = quantizer.codebooks._version, quantizer.counts._version
    quantizer.update(clustered(64, seed=1))
    assert quantizer.codebooks._version > before[0]
    assert quantizer.counts._version > before[1]


class TestKnownCodes:
    """What the layer found of a batch is taken for an update on it, and only then."""

    @pytest.fixture
    def encoded(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Grows whenever an update has to find codes."""
        calls: list[int] = []
        encode = product.ProductQuantizer._encode

        def counted(self: gs.ProductQuantizer, x: Tensor) -> Tensor:
            calls.append(len(x))
            return encode(self, x)

        monkeypatch.setattr(product.ProductQuantizer, "_encode", counted)
        return calls

    @pytest.fixture
    def step(self) -> tuple[gs.Quantizer, Tensor]:
        quantizer = made(24, 4, 64)
        y = clustered(40, 24, seed=1).requires_grad_()
        layer = gs.GradientSnapping(quantizer, 30)
        layer(y).square().sum().backward()
        return quantizer, y

    def test_the_same_batch(self, step, encoded) -> None:
        quantizer, y = step
        twin = copy.deepcopy(quantizer)
        quantizer.update(y.detach())
        assert encoded == []
        twin.update(y.detach())
        assert encoded == [40]  # a copy has codebooks of its own
        for mine, theirs in zip(state(quantizer), state(twin), strict=True):
            assert torch.equal(mine, theirs)
        quantizer.update(y.detach())
        assert encoded == [40, 40]  # the codebooks have moved

    def test_another_batch(self, step, encoded) -> None:
        quantizer, y = step
        quantizer.update(y.detach().clone())
        assert encoded == [40]

    def test_rows_that_were_changed(self, step, encoded) -> None:
        quantizer, y = step
        with torch.no_grad():
            y += 1
        quantizer.update(y.detach())
        assert encoded == [40]

    def test_a_part_of_the_rows(self, step, encoded) -> None:
        quantizer, y = step
        quantizer.update(y.detach()[:20])
        assert encoded == [20]

    def test_codebooks_that_were_changed(self, step, encoded) -> None:
        quantizer, y = step
        quantizer.codebooks.mul_(1.01)
        quantizer.update(y.detach())
        assert encoded == [40]

    def test_codebooks_that_were_replaced(self, step, encoded) -> None:
        quantizer, y = step
        quantizer.double().float()
        quantizer.update(y.detach())
        assert encoded == [40]

    def test_codes_are_those_of_the_quantizer(self) -> None:
        for seed in range(5):
            quantizer, y = made(24, 4, 64), clustered(200, 24, seed=seed)
            found = fused.fused(gs.SnappingRule(), quantizer, gaussian(200, 24), y, 30)
            assert torch.equal(found.nearest, quantizer.encode(y).long())

    def test_ties_are_those_of_the_quantizer(self) -> None:
        quantizer = made(24, 4, 64)
        quantizer.codebooks[:, 32:] = quantizer.codebooks[:, :32].clone()
        y = clustered(50, 24, seed=3)
        found = fused.fused(gs.SnappingRule(), quantizer, gaussian(50, 24), y, 30)
        assert torch.equal(found.nearest, quantizer.encode(y).long())
        assert found.nearest.max() < 32

    def test_inference_tensors_are_not_counted(self) -> None:
        quantizer = made(24, 4, 64)
        layer = gs.GradientSnapping(quantizer, 30)
        with torch.inference_mode():
            y = clustered(40, 24, seed=1)
            layer.snap(gaussian(40, 24), y)
            quantizer.update(y)


def test_without_numba_torch_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = gs.GradientSnapping(made(8, 2, 16), 20)
    y, g = clustered(40, seed=1), gaussian(40, seed=2)
    expected = backward(layer, y, g)
    monkeypatch.setattr(compiled, "installed", lambda: False)
    assert not fused.can_fuse(layer.rule, layer.quantizer, g, y)
    torch.testing.assert_close(backward(layer, y, g), expected, rtol=1e-4, atol=1e-5)
    layer.quantizer.update(y)

"""The layer: identity forward, the rule backward, and where it may be used."""

import copy
import functools
import math
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gradsnap as gs
from gradsnap.coders.quantizers import QUANTIZERS
from tests import reference_snapping as slow

DIM = 6


def rows(count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, DIM, generator=generator, dtype=dtype)


@functools.cache
def _fitted(kind: str) -> gs.Quantizer:
    quantizer = QUANTIZERS[kind](DIM, num_codebooks=2, codebook_size=8)
    return quantizer.double().fit(rows(300))


def fitted(kind: str = "pq") -> gs.Quantizer:
    return copy.deepcopy(_fitted(kind))


def backward(layer: Callable[[Tensor], Tensor], y: Tensor, g: Tensor) -> Tensor:
    """The gradient that leaves the layer when ``g`` arrives."""
    leaf = y.clone().requires_grad_()
    layer(leaf).backward(g)
    assert leaf.grad is not None
    return leaf.grad


def test_forward_returns_the_very_same_values() -> None:
    y = rows(5)
    out = gs.GradientSnapping(fitted())(y)
    assert torch.equal(out, y)
    assert out.data_ptr() == y.data_ptr()


@pytest.mark.parametrize("kind", QUANTIZERS)
@pytest.mark.parametrize("strength", [0.0, 0.036, 1.0])
def test_backward_equals_the_loop(kind: str, strength: float) -> None:
    quantizer, y, g = fitted(kind), rows(20, 1), rows(20, 2)
    layer = gs.GradientSnapping(quantizer, 12, gs.SnappingRule(strength))
    expected = slow.snapped(quantizer, y, g, 12, strength, slow.snapped_row)
    torch.testing.assert_close(backward(layer, y, g), expected)


def test_printed_rule_equals_the_printed_equations() -> None:
    quantizer, y, g = fitted(), rows(20, 1), rows(20, 2)
    layer = gs.GradientSnapping(quantizer, 12, gs.PrintedRule(0.5))
    expected = slow.snapped(quantizer, y, g, 12, 0.5, slow.printed_row)
    torch.testing.assert_close(backward(layer, y, g), expected)


def test_a_toy_in_two_dimensions_worked_by_hand() -> None:
    """One block, codewords at (0, 0) and (2, 0), y = (1, 1), g = (1, 1)."""
    quantizer = gs.ProductQuantizer(2, num_codebooks=1, codebook_size=2).double()
    quantizer.fit(torch.tensor([[0.0, 0.0], [2.0, 0.0]], dtype=torch.float64))
    y, g = torch.ones(1, 2).double(), torch.ones(1, 2).double()
    layer = gs.GradientSnapping(quantizer, 2, gs.SnappingRule(0.5))
    # both codewords are √2 away, so w = 1/e; u = (1, 1)/√2 for the origin, which g
    # points straight away from: cosθ = 1, nothing of λg is left
    expected = torch.full((1, 2), math.exp(-1), dtype=torch.float64)
    torch.testing.assert_close(backward(layer, y, g), expected)
    assert layer.last is not None
    torch.testing.assert_close(layer.last.conformity, torch.ones(1).double())
    torch.testing.assert_close(layer.last.distance, torch.tensor([2**0.5]).double())
    assert layer.last.accepted.tolist() == [True]


def test_rejection_is_the_rules_to_decide() -> None:
    """One codeword only, and the gradient points to it: descent would walk away."""
    quantizer = gs.ProductQuantizer(1, num_codebooks=1, codebook_size=2)
    quantizer.fit(torch.tensor([[1.0], [1.5]]))
    y, g = torch.zeros(1, 1), torch.tensor([[-2.0]])
    accepted = gs.GradientSnapping(quantizer, 2)
    assert backward(accepted, y, g).item() < 0  # y − c and g agree: down-hill is c
    for rejected, share in ((None, 0.25), (0.75, 0.75)):
        rule = gs.SnappingRule(0.25, rejected_strength=rejected)
        layer = gs.GradientSnapping(quantizer, 2, rule)
        assert backward(layer, y, -g).item() == share * 2.0
        assert layer.last is not None
        assert layer.last.accepted.tolist() == [False]


class TestLaws:
    strength = 0.3

    @pytest.fixture(params=list(QUANTIZERS))
    def layer(self, request) -> gs.GradientSnapping:
        rule = gs.SnappingRule(self.strength)
        return gs.GradientSnapping(fitted(request.param), 20, rule)

    def test_never_up_hill(self, layer: gs.GradientSnapping) -> None:
        y, g = rows(200, 3), rows(200, 4)
        out = backward(layer, y, g)
        last = layer.last
        assert last is not None
        assert ((g * out).sum(dim=1) >= 0).all()
        cosine2 = last.conformity.square()
        least = self.strength * (1 - cosine2) * g.square().sum(dim=1)
        assert ((g * out).sum(dim=1)[last.accepted] > least[last.accepted]).all()

    def test_an_accepted_step_nears_the_codeword(self, layer) -> None:
        """⟨y − c*, Δy⟩ > 0, for the c* that ``last`` describes."""
        y, g = rows(100, 3), rows(100, 4)
        out = backward(layer, y, g)
        offsets = y[:, None] - slow.all_codewords(layer.quantizer)  # (n, words, dim)
        cosine = (offsets @ g[..., None])[..., 0] / (
            offsets.norm(dim=2) * g.norm(dim=1, keepdim=True)
        )
        is_chosen = (offsets.norm(dim=2) - layer.last.distance[:, None]).abs() < 1e-9
        is_chosen &= (cosine - layer.last.conformity[:, None]).abs() < 1e-9
        assert is_chosen.any(dim=1).all()
        chosen = offsets[torch.arange(100), is_chosen.long().argmax(dim=1)]
        nearing = (chosen * out).sum(dim=1)
        assert layer.last.accepted.double().mean() > 0.5
        assert (nearing[layer.last.accepted] > 0).all()

    def test_homogeneous_in_the_gradient(self, layer) -> None:
        y, g = rows(50, 3), rows(50, 4)
        once = backward(layer, y, g)
        torch.testing.assert_close(backward(layer, y, 1e-4 * g), 1e-4 * once)
        torch.testing.assert_close(backward(layer, y, 50 * g), 50 * once)

    def test_no_gradient_stays_none(self, layer) -> None:
        out = backward(layer, rows(5, 3), torch.zeros(5, DIM, dtype=torch.float64))
        assert torch.equal(out, torch.zeros_like(out))
        assert layer.last.conformity.isfinite().all()

    def test_on_a_codeword_nothing_is_nan(self, layer) -> None:
        on = layer.quantizer.decode(layer.quantizer.encode(rows(8, 3)))
        out = backward(layer, on, rows(8, 4))
        assert out.isfinite().all()
        assert layer.last.distance.isfinite().all()


def test_invariant_to_the_scale_of_embeddings_and_codebooks() -> None:
    quantizer, y, g = fitted(), rows(50, 3), rows(50, 4)
    once = backward(gs.GradientSnapping(quantizer, 20), y, g)
    assert isinstance(quantizer, gs.ProductQuantizer)
    quantizer.codebooks.mul_(1000.0)
    again = backward(gs.GradientSnapping(quantizer, 20), 1000.0 * y, g)
    torch.testing.assert_close(again, once)


def test_across_the_gradient_only_the_strength_is_left() -> None:
    """Δy → λg as cosθ → 0."""
    quantizer = gs.ProductQuantizer(2, num_codebooks=1, codebook_size=2).double()
    quantizer.fit(torch.tensor([[0.0, 0.0], [0.0, 0.0]], dtype=torch.float64))
    y = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    g = torch.tensor([[1e-7, 1.0]], dtype=torch.float64)
    out = backward(gs.GradientSnapping(quantizer, 1, gs.SnappingRule(0.3)), y, g)
    torch.testing.assert_close(out, 0.3 * g, atol=1e-6, rtol=0)


def test_one_neighbor_chooses_the_nearest() -> None:
    quantizer, y, g = fitted(), rows(30, 3), rows(30, 4)
    layer = gs.GradientSnapping(quantizer, neighbors=1)
    backward(layer, y, g)
    assert layer.last is not None
    nearest = (y - quantizer(y)).norm(dim=1)
    torch.testing.assert_close(layer.last.distance, nearest)


def test_more_neighbors_never_agree_less() -> None:
    quantizer, y, g = fitted(), rows(100, 3), rows(100, 4)
    means = []
    for neighbors in (1, 8, 64):
        rule = gs.SnappingRule(falloff=lambda d, s: torch.ones_like(d))
        layer = gs.GradientSnapping(quantizer, neighbors, rule)
        backward(layer, y, g)
        assert layer.last is not None
        means.append(layer.last.conformity)
    assert (means[1] >= means[0] - 1e-12).all()
    assert (means[2] >= means[1] - 1e-12).all()


class TestBadInput:
    def test_not_fitted_yet(self) -> None:
        layer = gs.GradientSnapping(gs.ProductQuantizer(DIM, 2, 8))
        with pytest.raises(gs.NotFittedError, match=r"call quantizer\.fit"):
            backward(layer, rows(3), rows(3))

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_nonfinite_gradient(self, bad: float) -> None:
        g = rows(4, 2)
        g[1, 2] = bad
        with pytest.raises(gs.InputError, match="1 of 4 rows"):
            backward(gs.GradientSnapping(fitted()), rows(4), g)

    def test_nonfinite_rows_can_be_passed_on(self) -> None:
        y, g = rows(4), rows(4, 2)
        quantizer = fitted()
        clean = backward(gs.GradientSnapping(quantizer), y, g)
        g[1, 2] = math.inf
        out = backward(gs.GradientSnapping(quantizer, nonfinite="pass"), y, g)
        assert torch.equal(out[1], g[1])
        others = torch.tensor([0, 2, 3])
        torch.testing.assert_close(out[others], clean[others])

    @pytest.mark.parametrize("shape", [(4, DIM + 1), (DIM,), (2, 2, DIM)])
    def test_wrong_shape(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(gs.InputError, match=rf"\(n, {DIM}\), got"):
            gs.GradientSnapping(fitted())(torch.zeros(shape))

    def test_impossible_arguments(self) -> None:
        with pytest.raises(gs.InputError, match="at least 1, got 0"):
            gs.GradientSnapping(fitted(), neighbors=0)
        with pytest.raises(gs.InputError, match=r"got -1\.0"):
            gs.SnappingRule(-1.0)
        with pytest.raises(gs.InputError, match="'raise' or 'pass', got 'ignore'"):
            gs.GradientSnapping(fitted(), nonfinite="ignore")  # type: ignore[arg-type]


class TestWhereItIsUsed:
    def test_more_neighbors_than_codewords(self) -> None:
        layer = gs.GradientSnapping(fitted(), neighbors=10_000)
        assert backward(layer, rows(4), rows(4, 2)).isfinite().all()

    def test_empty_batch(self) -> None:
        layer = gs.GradientSnapping(fitted())
        empty = torch.zeros(0, DIM, dtype=torch.float64)
        assert backward(layer, empty, empty).shape == (0, DIM)

    def test_autocast(self) -> None:
        quantizer = fitted().float()
        layer = gs.GradientSnapping(quantizer, 20)
        network = nn.Linear(DIM, DIM)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embeddings = network(rows(16, 1).float())
            assert embeddings.dtype == torch.bfloat16
            embeddings.retain_grad()
            layer(embeddings).float().square().sum().backward()
        g = 2 * embeddings.detach()
        expected = layer.snap(g.float(), embeddings.detach().float())
        assert embeddings.grad is not None
        assert embeddings.grad.dtype == torch.bfloat16
        torch.testing.assert_close(
            embeddings.grad.float(), expected, rtol=1e-2, atol=1e-2
        )

    def test_accumulated_gradients_add_up(self) -> None:
        layer, y, g = gs.GradientSnapping(fitted()), rows(6), rows(6, 2)
        parts = [backward(layer, y, part * g) for part in (1.0, 0.5)]
        leaf = y.clone().requires_grad_()
        layer(leaf).backward(g)
        layer(leaf).backward(0.5 * g)
        torch.testing.assert_close(leaf.grad, parts[0] + parts[1])

    def test_a_quantizer_updated_between_steps(self) -> None:
        quantizer, y, g = fitted(), rows(16), rows(16, 2)
        layer = gs.GradientSnapping(quantizer, 12)
        leaf = y.clone().requires_grad_()
        out = layer(leaf)
        quantizer.update(rows(64, 5))  # between forward and backward, even
        out.backward(g)
        expected = slow.snapped(quantizer, y, g, 12, 0.3, slow.snapped_row)
        torch.testing.assert_close(leaf.grad, expected)

    def test_single_precision_is_close_to_double(self) -> None:
        quantizer, y, g = fitted(), rows(200, 3), rows(200, 4)
        exact = backward(gs.GradientSnapping(quantizer, 20), y, g)
        single = copy.deepcopy(quantizer).float()
        rough = backward(gs.GradientSnapping(single, 20), y.float(), g.float())
        same = (rough.double() - exact).norm(dim=1) < 1e-4
        assert same.double().mean() > 0.98  # ties may choose another codeword

    @pytest.mark.parametrize(
        "make", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
    )
    def test_a_copy_is_a_layer_of_its_own(self, make) -> None:
        layer = gs.GradientSnapping(fitted())
        other = make(layer)
        backward(other, rows(3), rows(3, 2))
        assert layer.last is None
        assert other.last is not None

    def test_follows_the_module(self) -> None:
        network = nn.Sequential(nn.Linear(DIM, DIM), gs.GradientSnapping(fitted()))
        assert "1.quantizer.codebooks" in network.state_dict()
        assert "neighbors=150" in repr(network)

    def test_needs_no_gradient_to_pass(self) -> None:
        layer = gs.GradientSnapping(gs.ProductQuantizer(DIM, 2, 8))
        with torch.no_grad():
            assert torch.equal(layer(rows(3)), rows(3))

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")  # the compiler's own
    def test_compiled_as_one_graph(self) -> None:
        quantizer, y, g = fitted("opq"), rows(16), rows(16, 2)
        layer = gs.GradientSnapping(quantizer, 12)
        expected = backward(layer, y, g)
        layer.last = None
        compiled = torch.compile(layer, fullgraph=True)
        torch.testing.assert_close(backward(compiled, y, g), expected)
        assert layer.last is not None
        quantizer.update(rows(64, 5))  # the graph must see the new codebooks
        again = backward(gs.GradientSnapping(quantizer, 12), y, g)
        torch.testing.assert_close(backward(compiled, y, g), again)

    @pytest.mark.gpu
    def test_cuda(self) -> None:
        quantizer, y, g = fitted(), rows(16), rows(16, 2)
        expected = backward(gs.GradientSnapping(quantizer, 12), y, g)
        layer = gs.GradientSnapping(quantizer, 12).cuda()
        torch.testing.assert_close(backward(layer, y.cuda(), g.cuda()).cpu(), expected)


def test_the_printed_rule_walks_away_from_its_codeword() -> None:
    """Why it is kept for audit only: the part that snaps increases ‖y − c*‖."""
    offset, g, weight = rows(50, 3), rows(50, 4), torch.ones(50).double()
    for rule, sign in ((gs.PrintedRule(0.0), -1), (gs.SnappingRule(0.0), 1)):
        out, accepted = rule.combine(g, offset, weight)
        nearing = (offset * out).sum(dim=1)[accepted]
        assert len(nearing) > 10
        assert (sign * nearing > 0).all()


class Largest(TorchDispatchMode):
    """Remembers the largest tensor any operation makes."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.numel = max(self.numel, leaf.untyped_storage().nbytes() // 8)
        return out


@pytest.mark.parametrize("kind", ["pq", "opq", "rvq"])
def test_nothing_of_rows_by_candidates_by_dim_is_held(kind: str) -> None:
    count, neighbors, dim = 64, 100, 256
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, dim, generator=generator, dtype=torch.float64)
    quantizer = QUANTIZERS[kind](dim, num_codebooks=2, codebook_size=16)
    layer = gs.GradientSnapping(quantizer.double().fit(x), neighbors)
    with Largest() as largest:
        layer.snap(x[:count], x[count : 2 * count])
    limit = max(count * neighbors * 16, dim * dim, 400 * dim)
    assert 0 < largest.numel <= limit < count * neighbors * dim / 4

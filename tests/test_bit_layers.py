"""Layers of bits, last layers of networks, and the settings that choose them."""

import pytest
import torch
from torch import nn

import gradsnap as gs
from gradsnap.coders import HASHERS
from gradsnap.layers import PiecewiseThreshold, StraightThroughSigns, Tanh
from gradsnap.methods import METHODS, Method
from gradsnap.methods.regularizers import CornerPenalty, NoRegularizer
from gradsnap.networks import EMBEDDING_LAYERS, Head, build_network
from gradsnap.networks.embedding_layers import SLICE, DivideAndEncode, with_feat
from gradsnap.training import make_config
from gradsnap.training.defaults import with_parts
from gradsnap.training.loop import LayerSchedule
from tests.conftest import gaussian


def test_tanh_equals_its_formula() -> None:
    rows = gaussian(6, 4).double().requires_grad_()
    layer = Tanh(sharpness=3.0)
    grown = torch.exp(3 * rows), torch.exp(-3 * rows)
    torch.testing.assert_close(layer(rows), (grown[0] - grown[1]) / sum(grown))
    assert torch.autograd.gradcheck(layer, rows)


def test_signs_forward_and_the_gradient_as_it_is_backward() -> None:
    rows = torch.tensor([[-0.1, 0.0, 1e-30, 1e15]]).requires_grad_()
    layer = StraightThroughSigns()
    out = layer(rows)
    assert out.tolist() == [[-1.0, -1.0, 1.0, 1.0]]
    bits = HASHERS["sign"](4, 4).encode(rows.detach())
    assert bits.tolist() == [[0b1100]]  # the very bits of the hash
    gradient = gaussian(1, 4)
    out.backward(gradient)
    assert rows.grad is not None
    assert torch.equal(rows.grad, gradient)


def test_threshold_equals_its_formula() -> None:
    rows = gaussian(8, 4).double().requires_grad_()
    layer = PiecewiseThreshold(width=0.2)
    out = layer(rows)
    (found,) = torch.autograd.grad(out.sum(), rows)
    for value, passed, slope in zip(
        rows.flatten().tolist(), out.flatten(), found.flatten(), strict=True
    ):
        sigmoid = 1 / (1 + torch.exp(torch.tensor(-value).double()))
        if sigmoid < 0.3 or sigmoid > 0.7:
            assert passed == (1.0 if value > 0 else 0.0)
            assert slope == 0
        else:
            torch.testing.assert_close(passed, sigmoid)
            torch.testing.assert_close(slope, sigmoid * (1 - sigmoid))
    assert {0.0, 1.0} < set(out.flatten().tolist())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tanh(0.0), "sharpness must be positive and finite, got 0.0"),
        (lambda: PiecewiseThreshold(0.6), "width must be .*at most 0.5, got 0.6"),
        (lambda: CornerPenalty(power=0.5), "power must be at least 1 .*got 0.5"),
        (lambda: CornerPenalty(strength=-1.0), "strength must be zero or more"),
    ],
)
def test_options_that_cannot_be_are_refused(make, message: str) -> None:
    with pytest.raises(gs.InputError, match=message):
        make()


def test_layers_of_bits_do_not_wait_for_a_coder() -> None:
    """Unlike layers that look at codewords, for which there are none before a fit."""
    unfitted = HASHERS["weighted"].of_bits(4, 4, hasher="sign")
    rows = gaussian(6, 4)
    method = Method(gs.TripletLoss(), NoRegularizer(), Tanh(), unfitted)
    assert torch.equal(method.through_layer(rows), rows.tanh())
    quantizer = gs.ProductQuantizer(4, 2, 4)
    waits = Method(
        gs.TripletLoss(), NoRegularizer(), gs.StraightThrough(quantizer), quantizer
    )
    assert waits.through_layer(rows) is rows


@pytest.mark.parametrize("method", ["hashnet", "dsch", "drsch"])
def test_continuation_sharpens_over_the_whole_run(method: str) -> None:
    settings = make_config({"method": {"name": method}}).layer
    layer = Tanh()
    sharpness = []
    for step in (0, 50, 100):
        LayerSchedule(settings, steps=100).set(layer, step)
        sharpness.append(layer.sharpness)
    last = settings.options["sharpness"]
    assert sharpness == [1.0, (1 + last) / 2, last]


def test_another_part_drops_the_options_of_the_one_it_replaces() -> None:
    own = make_config({"method": {"name": "hashnet"}})
    assert own.layer.options == {"sharpness": 10.0}
    plain = make_config({"method": {"name": "hashnet"}}, ["layer.name=plain"])
    assert plain.layer.options == plain.layer.first == {}
    assert plain.layer.ramp == own.layer.ramp
    other = make_config({"method": {"name": "drsch"}}, ["coder.kind=itq"])
    assert other.coder.options == {}
    same = make_config({"method": {"name": "drsch"}}, ["coder.kind=weighted"])
    assert same.coder.options == {"hasher": "sign"}


def test_weighted_signs_have_a_dimension_a_bit() -> None:
    weighted = HASHERS["weighted"]
    assert weighted.dim_of_bits(24, hasher="sign") == 24
    assert weighted.dim_of_bits(24) is None
    assert with_parts(make_config(METHODS["drsch"].tables("drsch"))).network.dim == 32


# --- the last layer of a network ----------------------------------------------------


@pytest.mark.parametrize("feat", EMBEDDING_LAYERS)
def test_every_last_layer_embeds_and_learns(feat: str) -> None:
    network = build_network("head", input_dim=6, dim=4, hidden=[8], feat=feat)
    again = build_network("head", input_dim=6, dim=4, hidden=[8], feat=feat)
    rows = gaussian(10, 6)
    embeddings = network(rows)
    assert embeddings.shape == (10, network.dim)
    assert torch.equal(embeddings, again(rows))  # weights of the seed alone
    embeddings.square().sum().backward()
    assert all(one.grad is not None for one in network.feat.parameters())


def test_standardized_outputs_have_mean_zero_and_variance_one() -> None:
    network = build_network("head", input_dim=6, dim=4, feat="standardized")
    embeddings = network(5 + 3 * gaussian(200, 6))
    torch.testing.assert_close(
        embeddings.mean(dim=0), torch.zeros(4), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        embeddings.var(dim=0, unbiased=False), torch.ones(4), atol=1e-3, rtol=0
    )


def test_divide_and_encode_gives_each_bit_features_of_its_own() -> None:
    layer, rows = DivideAndEncode(trunk_dim=6, dim=4), gaussian(10, 6)
    features = layer.features(rows).clamp_min(0)
    for bit, found in enumerate(layer(rows).T):
        own = features[:, SLICE * bit : SLICE * (bit + 1)]
        expected = own @ layer.weight[bit] + layer.bias[bit]
        torch.testing.assert_close(found, expected)


def test_a_last_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(gs.InputError, match=r"unknown embedding layer .conv.; .*lin"):
        build_network("head", input_dim=6, feat="conv")
    with pytest.raises(gs.InputError, match=r"network.feat cannot be 'conv'; choose"):
        make_config({"network": {"feat": "conv"}})


def test_only_a_linear_layer_is_swapped() -> None:
    network = Head(input_dim=6, dim=4)
    network.feat = nn.Identity()
    with pytest.raises(gs.InputError, match="Head ends with no linear layer"):
        with_feat(network, "standardized")

"""The rivals of snapping: penalty, straight-through, soft assignment, the registry."""

import pytest
import torch
from torch import nn

import gradsnap as gs
from gradsnap.coders.quantizers import QUANTIZERS
from gradsnap.layers import LAYERS, build_layer, gives_items
from tests.test_snapping import DIM, backward, fitted, rows


def test_output_regularization_is_the_penalty_in_the_loss() -> None:
    quantizer, y = fitted(), rows(20, 1)
    rule = gs.OutputRegularization(0.3)
    layer = gs.GradientSnapping(quantizer, neighbors=1, rule=rule)
    penalty = gs.QuantizationPenalty(0.3)
    loss_in_layer = y.clone().requires_grad_()
    layer(loss_in_layer).square().mean().backward()
    loss_with_term = y.clone().requires_grad_()
    (loss_with_term.square().mean() + penalty(loss_with_term, quantizer)).backward()
    torch.testing.assert_close(loss_in_layer.grad, loss_with_term.grad)


def test_penalty_equals_its_formula() -> None:
    quantizer, y = fitted(), rows(20, 1)
    expected = sum(
        0.5 * float(((row - word) ** 2).sum()) / 20
        for row, word in zip(y, quantizer(y), strict=True)
    )
    penalty = gs.QuantizationPenalty(0.5)
    assert float(penalty(y, quantizer)) == pytest.approx(expected)


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_straight_through_is_hard_forward_and_nothing_backward(kind: str) -> None:
    quantizer, y, g = fitted(kind), rows(20, 1), rows(20, 2)
    layer = gs.StraightThrough(quantizer)
    torch.testing.assert_close(layer(y), quantizer(y))
    assert torch.equal(backward(layer, y, g), g)


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_soft_assignment_differentiates_the_soft_mixture(kind: str) -> None:
    quantizer, y, g = fitted(kind), rows(10, 1), rows(10, 2)
    layer = gs.SoftAssignment(quantizer, neighbors=9, temperature=0.5)
    distances, codes = quantizer.candidates(y, 9)
    words = quantizer.decode(codes.flatten(0, 1)).view(10, 9, DIM)
    torch.testing.assert_close(layer(y), words[:, 0])

    leaf = y.clone().requires_grad_()
    squared = (leaf[:, None] - words).square().sum(dim=2)
    scale = 0.5 * distances.mean(dim=1, keepdim=True)
    mixture = ((-squared / scale).softmax(dim=1)[..., None] * words).sum(dim=1)
    mixture.backward(g)
    assert leaf.grad is not None
    torch.testing.assert_close(backward(layer, y, g), leaf.grad)


def test_soft_assignment_refuses_no_temperature() -> None:
    with pytest.raises(gs.InputError, match="more than 0, got 0"):
        gs.SoftAssignment(fitted(), temperature=0)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_trains_a_network_a_step(name: str) -> None:
    quantizer = fitted().float()
    network = nn.Linear(DIM, DIM)
    before = network.weight.detach().clone()
    layer = build_layer(name, quantizer)
    labels = torch.arange(32) % 3
    embeddings = network(rows(32, 3).float())
    out = layer(embeddings)
    assert out.shape == embeddings.shape
    queries, items = (embeddings, out) if gives_items(layer) else (out, None)
    gs.TripletLoss()(queries, labels, items=items).backward()
    torch.optim.SGD(network.parameters(), lr=0.1).step()
    assert network.weight.isfinite().all()
    assert not torch.equal(network.weight, before)


def test_the_registry_is_complete() -> None:
    assert list(LAYERS) == [
        "plain",
        "snapping",
        "codes",
        "printed",
        "output-regularization",
        "straight-through",
        "straight-through-codes",
        "soft-assignment",
        "soft-codes",
        "hard-codes",
        "fixed-codes",
        "tanh",
        "sign",
        "threshold",
    ]

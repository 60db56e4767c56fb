"""The battery of all losses, and the triplet loss against a loop."""

import itertools

import pytest
import torch

import gradsnap as gs
from gradsnap.losses import LOSSES


@pytest.fixture(params=list(LOSSES))
def loss(request) -> torch.nn.Module:
    return LOSSES[request.param]()


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(12) % 3
    return torch.randn(12, 5, generator=generator, dtype=torch.float64), labels


def test_scalar_with_a_finite_gradient(loss) -> None:
    embeddings, labels = batch()
    value = loss(embeddings.requires_grad_(), labels)
    value.backward()
    assert value.shape == ()
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()
    assert embeddings.grad.abs().sum() > 0


def test_order_of_the_batch_does_not_matter(loss) -> None:
    embeddings, labels = batch()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        loss(embeddings[order], labels[order]), loss(embeddings, labels)
    )


def test_far_classes_cost_nothing(loss) -> None:
    embeddings, labels = batch()
    far = 0.01 * embeddings + 100 * labels[:, None]
    assert loss(far, labels) == 0


def test_near_positive_and_far_negative_beats_the_reverse(loss) -> None:
    labels = torch.tensor([0, 0, 1])
    good, bad = torch.tensor([[0.0], [0.1], [0.9]]), torch.tensor([[0.0], [0.9], [0.1]])
    assert loss(good, labels) < loss(bad, labels)


def test_nothing_to_compare_is_zero_and_has_a_gradient(loss) -> None:
    embeddings, _ = batch()
    for labels in (torch.zeros(12), torch.arange(12)):
        value = loss(embeddings.requires_grad_(), labels)
        value.backward()
        assert value == 0


def test_equal_embeddings_give_no_nan(loss) -> None:
    embeddings = torch.ones(6, 4, requires_grad=True)
    loss(embeddings, torch.arange(6) % 2).backward()
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()


def test_labels_of_another_length_are_refused(loss) -> None:
    with pytest.raises(gs.InputError, match=r"each of 12 embeddings, .*\(5,\)"):
        loss(batch()[0], torch.zeros(5))


def test_triplet_loss_equals_the_loop() -> None:
    embeddings, labels = batch()
    hinges = []
    for a, p, n in itertools.product(range(12), repeat=3):
        if a != p and labels[a] == labels[p] and labels[a] != labels[n]:
            near = (embeddings[a] - embeddings[p]).norm()
            hinges.append(0.7 + near - (embeddings[a] - embeddings[n]).norm())
    violated = [hinge for hinge in hinges if hinge > 0]
    expected = sum(violated) / len(violated)
    torch.testing.assert_close(gs.TripletLoss(0.7)(embeddings, labels), expected)


def test_triplet_loss_refuses_a_negative_margin() -> None:
    with pytest.raises(gs.InputError, match="got -1"):
        gs.TripletLoss(-1)

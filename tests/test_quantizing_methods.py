"""PQN, DPQ, DTQ and JPQ: their losses, terms and layers against loops."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.coders import HASHERS
from gradsnap.coders.quantizers import Quantizer
from gradsnap.layers import build_layer, gives_items
from gradsnap.losses.pairs import alike_and_unlike
from gradsnap.losses.relations import Relations
from gradsnap.methods.dpq import GiniPenalty, JointCentralLoss
from gradsnap.methods.dtq import OrthogonalityPenalty, mean_overlap
from gradsnap.methods.jpq import RankingLoss
from gradsnap.methods.pqn import AsymmetricTripletLoss
from tests.conftest import several
from tests.test_snapping import DIM, backward, fitted, rows

LABELS = torch.arange(12) % 3


def value(scalar: Tensor) -> float:
    return float(scalar.detach())


def learning(kind: str = "pq") -> Quantizer:
    quantizer = copy.deepcopy(fitted(kind))
    quantizer.codebooks.requires_grad_()
    return quantizer


def slow_triplets(q: Tensor, items: Tensor, negatives: int, ranked: bool) -> float:
    """log(1 + exp(d₊ − d₋)) by loops, weighted by ranks or not."""
    losses = []
    for a in range(len(q)):
        apart = {i: value((q[a] - items[i]).square().sum()) for i in range(len(q))}
        others = sorted((i for i in apart if i != a), key=lambda i: apart[i])
        rank = {i: place + 1 for place, i in enumerate(others)}
        near = [i for i in others if LABELS[i] == LABELS[a]]
        far = [i for i in others if LABELS[i] != LABELS[a]][:negatives]
        terms = [
            (abs(1 / rank[p] - 1 / rank[n]) if ranked else 1)
            * math.log1p(math.exp(apart[p] - apart[n]))
            for p in near
            for n in far
        ]
        losses.append(sum(terms) / len(terms))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("negatives", [3, 64])
@pytest.mark.parametrize("kind", [AsymmetricTripletLoss, RankingLoss])
def test_triplets_equal_their_loop(kind, negatives: int) -> None:
    loss, q, items = kind(negatives), rows(12, 1) / 2, rows(12, 2) / 2
    expected = slow_triplets(q, items, negatives, kind is RankingLoss)
    assert value(loss(q, LABELS, items=items)) == pytest.approx(expected)
    leaves = q.clone().requires_grad_(), items.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda y, i: loss(y, LABELS, items=i), leaves)


def test_triplets_without_any_are_zero() -> None:
    y = rows(4, 1).requires_grad_()
    for labels in (torch.zeros(4).long(), torch.arange(4)):
        found = AsymmetricTripletLoss()(y, labels)
        found.backward()
        assert found == 0
        assert y.grad is not None
        assert y.grad.isfinite().all()
    with pytest.raises(gs.InputError, match="negatives must be at least 1, got 0"):
        AsymmetricTripletLoss(0)


def test_relations_serve_triplets_and_not_classes() -> None:
    y = rows(12, 1)
    relations = Relations(*alike_and_unlike(LABELS))
    loss = AsymmetricTripletLoss()
    assert torch.equal(loss(y, relations), loss(y, LABELS))
    with pytest.raises(gs.InputError, match="DPQ needs labels"):
        JointCentralLoss(3, DIM)(y, relations)


def slow_central(loss: JointCentralLoss, y: Tensor, wanted: list[list[int]]) -> float:
    total = 0.0
    for row, labels in zip(y, wanted, strict=True):
        centre = sum(loss.centres[one] for one in labels) / max(len(labels), 1)
        total += value((row - centre).square().sum()) / 2
    return loss.strength * total / len(y)


@pytest.mark.parametrize("many", [False, True])
def test_joint_central_loss_equals_its_loop(many: bool) -> None:
    labels = several(LABELS) if many else LABELS
    loss = JointCentralLoss(5 if many else 3, DIM, strength=0.5).double()
    y, items = rows(12, 1), rows(12, 2)
    wanted = [row.nonzero().flatten().tolist() for row in labels]
    wanted = wanted if many else [[int(one)] for one in LABELS]
    expected = sum(
        value(loss.classifier(part, labels)) + slow_central(loss, part, wanted)
        for part in (y, items)
    )
    assert value(loss(y, labels, items=items)) == pytest.approx(expected)
    leaves = y.requires_grad_(), items.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: loss(a, labels, items=b), leaves)


def slow_assignments(quantizer: Quantizer, y: Tensor, temperature: float) -> Tensor:
    """p (n, M, K) by the formula, of a product quantizer, differentiable."""
    found = []
    blocks = y.tensor_split(quantizer.num_codebooks, dim=1)
    for block, words in zip(blocks, quantizer.codebooks, strict=True):
        words = words[:, : block.shape[1]]
        squares = (block[:, None] - words).square().sum(dim=2)
        scale = temperature * squares.mean(dim=1, keepdim=True).detach()
        found.append((-squares / scale).softmax(dim=1))
    return torch.stack(found, dim=1)


def slow_mixture(quantizer: Quantizer, weights: Tensor, y: Tensor) -> Tensor:
    """Σₖ p_mk c_mk, block beside block."""
    widths = [part.shape[1] for part in y.tensor_split(weights.shape[1], dim=1)]
    parts = [
        weights[:, m] @ quantizer.codebooks[m, :, :width]
        for m, width in enumerate(widths)
    ]
    return torch.cat(parts, dim=1)


def test_gini_penalty_equals_its_formula() -> None:
    quantizer, y = learning(), rows(12, 1)
    shares = slow_assignments(quantizer, y, 0.2)
    expected = 0.0
    for m in range(quantizer.num_codebooks):
        even = sum(value(one) ** 2 for one in shares[:, m].mean(dim=0))
        peaked = sum(value(one) ** 2 for one in shares[:, m].flatten()) / 12
        expected += 0.5 * (even + 1 - peaked) / quantizer.num_codebooks
    penalty = GiniPenalty(0.5, temperature=0.2)
    assert value(penalty(y, quantizer)) == pytest.approx(expected)
    unfitted = gs.ProductQuantizer(DIM, 2, 4)
    assert value(penalty(y, unfitted)) == 0
    with pytest.raises(gs.InputError, match="need a quantizer"):
        penalty(y, HASHERS["sign"](DIM, DIM))


@pytest.mark.parametrize("name", ["soft-codes", "hard-codes"])
def test_soft_choices_equal_their_formula(name: str) -> None:
    quantizer, y, g = learning(), rows(10, 1), rows(10, 2)
    layer = build_layer(name, quantizer, temperature=0.5)
    assert gives_items(layer)
    leaf, twin = y.clone().requires_grad_(), learning()
    weights = slow_assignments(twin, leaf, 0.5)
    if name == "hard-codes":
        codes = twin.encode(y).long()
        one_hot = nn.functional.one_hot(codes, twin.codebook_size).to(y.dtype)
        torch.testing.assert_close(layer(y), twin(y))
        weights = weights + (one_hot - weights).detach()
    mixture = slow_mixture(twin, weights, y)
    torch.testing.assert_close(layer(y), mixture)
    mixture.backward(g)
    torch.testing.assert_close(backward(layer, y, g), leaf.grad)
    torch.testing.assert_close(quantizer.codebooks.grad, twin.codebooks.grad)


def test_a_cold_soft_choice_is_the_code() -> None:
    for kind in ("pq", "opq"):
        quantizer, y = fitted(kind), rows(20, 1)
        soft = build_layer("soft-codes", quantizer, temperature=1e-6)
        torch.testing.assert_close(soft(y), quantizer(y))
    with pytest.raises(gs.InputError, match=r"coder.kind=pq or opq; got a Additive"):
        build_layer("soft-codes", fitted("aq"))
    with pytest.raises(gs.InputError, match="more than 0, got 0"):
        build_layer("hard-codes", fitted(), temperature=0)


def test_fixed_codes_move_codewords_alone() -> None:
    quantizer, y = learning(), rows(20, 1).requires_grad_()
    items = build_layer("fixed-codes", quantizer)(y)
    torch.testing.assert_close(items, quantizer(y))
    items.sum().backward()
    assert y.grad is None
    assert quantizer.codebooks.grad is not None


def test_overlap_is_the_mean_over_pairs_of_words() -> None:
    quantizer = learning("aq")
    words = quantizer.codebooks.detach().tolist()
    squares = [
        sum(a * b for a, b in zip(one, two, strict=True)) ** 2
        for m, first in enumerate(words)
        for n, second in enumerate(words)
        if m != n
        for one in first
        for two in second
    ]
    expected = sum(squares) / len(squares)
    assert value(mean_overlap(quantizer.codebooks, DIM)) == pytest.approx(expected)
    y = rows(12, 1)
    error = 0.2 * value((y - quantizer(y)).square().sum()) / 12
    penalty = OrthogonalityPenalty(0.2, orthogonality=0.5)
    total = error + 0.1 * expected
    assert value(penalty(y, quantizer)) == pytest.approx(total)
    assert value(mean_overlap(learning().codebooks, DIM)) == 0


def test_codewords_become_more_orthogonal() -> None:
    quantizer, y = learning("aq"), rows(12, 1)
    before = value(mean_overlap(quantizer.codebooks, DIM))
    descent = torch.optim.Adam([quantizer.codebooks], lr=0.01)
    for _ in range(20):
        descent.zero_grad()
        OrthogonalityPenalty(1.0, orthogonality=10.0)(y, quantizer).backward()
        descent.step()
    assert value(mean_overlap(quantizer.codebooks, DIM)) < 0.9 * before

"""Each hashing method's own loss and regularizer against loops from its paper."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.coders import HASHERS
from gradsnap.methods import METHODS
from gradsnap.methods.centers import hadamard, hash_centers
from gradsnap.methods.cnnh import HashRegressionLoss, similarity_hashes
from gradsnap.registry import build
from tests.conftest import gaussian
from tests.test_losses_exact import LABELS, ROWS, mean, pairs, shared

BITS, CLASSES = 4, 3
SIZES = {"dim": BITS, "bits": BITS, "num_classes": CLASSES}
HASHER = HASHERS["sign"](BITS, BITS)
OWN_LOSSES = {m: one.loss for m, one in METHODS.items() if callable(one.loss)}
OWN_TERMS = {
    m: one.regularizer for m, one in METHODS.items() if callable(one.regularizer)
}

Twin = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Of the loss, for its options and constants, the outputs and the labels."""


def triplets(labels: Tensor) -> list[tuple[int, int, int]]:
    """Rows a, p and n: a shares a label with p and none with n."""
    return [
        (a, p, n)
        for a, p, n in itertools.permutations(range(len(labels)), 3)
        if shared(labels, a, p) and not shared(labels, a, n)
    ]


def own_labels(labels: Tensor, row: int) -> list[int]:
    if labels.ndim == 1:
        return [int(labels[row])]
    return [int(one) for one in labels[row].nonzero()]


def violated_mean(hinges: list[Tensor]) -> Tensor:
    return mean([hinge for hinge in hinges if hinge > 0])


def ninh_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    return violated_mean(
        [
            1 + (y[a] - y[p]).square().sum() - (y[a] - y[n]).square().sum()
            for a, p, n in triplets(labels)
        ]
    )


def dsch_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    def differing(i: int, j: int) -> Tensor:
        return (y[i] - y[j]).square().sum() / (4 * BITS)

    hinges = [0.05 + differing(a, p) - differing(a, n) for a, p, n in triplets(labels)]
    laplacian = [differing(i, j) * bool(shared(labels, i, j)) for i, j in pairs(len(y))]
    return violated_mean(hinges) + 0.1 / 2 * mean(laplacian)


def drsch_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    weights = loss.weights.double()
    return dsch_twin(loss, y * weights / weights.square().mean().sqrt(), labels)


def dsrh_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    lists = []
    for query in range(len(y)):
        apart = [(BITS - query_row @ y[query]) / 2 / BITS for query_row in y]
        terms, norm = [], 0
        for i, j in itertools.permutations(set(range(len(y))) - {query}, 2):
            first, second = shared(labels, query, i), shared(labels, query, j)
            if first > second:
                weight = 2**first - 2**second
                norm += weight
                terms.append(weight * (0.05 + apart[i] - apart[j]).clamp_min(0))
        if norm:
            lists.append(torch.stack(terms).sum() / norm)
    return mean(lists)


def dpsh_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for i, j in pairs(len(y)):
        theta = (y[i] @ y[j]) / 2
        s = 1 if shared(labels, i, j) else 0
        terms.append(-(s * theta - torch.log(1 + torch.exp(theta))))
    return mean(terms)


def hashnet_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    every = pairs(len(y))
    alike = [pair for pair in every if shared(labels, *pair)]
    total = torch.zeros(()).double()
    for i, j in every:
        theta = 10 / BITS * (y[i] @ y[j])
        near = (i, j) in alike
        share = len(alike) if near else len(every) - len(alike)
        weight = len(every) / share
        if near:
            either = {*own_labels(labels, i), *own_labels(labels, j)}
            weight *= shared(labels, i, j) / len(either)
        total = total + weight * (torch.log(1 + torch.exp(theta)) - near * theta)
    return total / len(every)


def csq_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for row, outputs in enumerate(y):
        votes = sum((loss.centers[c] for c in own_labels(labels, row)), loss.ties * 0)
        for bit, output in enumerate(outputs):
            vote = votes[bit] if votes[bit] != 0 else loss.ties[bit]
            h = (1 + torch.tanh(output)) / 2
            terms.append(-torch.log(h if vote > 0 else 1 - h))
    return mean(terms)


def orthohash_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for row, outputs in enumerate(y):
        own = own_labels(labels, row)
        logits = []
        for one, target in enumerate(loss.targets.double()):
            cosine = outputs @ target / (outputs.norm() * math.sqrt(BITS))
            logits.append(8.0 * (cosine - (0.2 if one in own else 0)))
        total = torch.stack([logit.exp() for logit in logits]).sum()
        parts = [-(logits[one].exp() / total).log() / len(own) for one in own]
        terms.append(sum(parts, torch.zeros(()).double()))
    return mean(terms)


def cnnh_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    targets = [
        next(
            target
            for known, target in zip(loss.sets, loss.targets, strict=True)
            if torch.equal(known, row.view(-1))
        )
        for row in labels
    ]
    return mean(
        [
            (output - bit) ** 2
            for row, target in zip(y, targets, strict=True)
            for output, bit in zip(row, target, strict=True)
        ]
    )


def cnnh_star_twin(loss, y: Tensor, labels: Tensor) -> Tensor:
    logits = y @ loss.classes.weight.double().T + loss.classes.bias.double()
    terms = []
    for row, values in enumerate(logits):
        own = own_labels(labels, row)
        if labels.ndim == 1:
            terms.append(values.exp().sum().log() - values[own[0]])
        else:
            chances = [value.sigmoid() for value in values]
            terms += [
                -(chance if one in own else 1 - chance).log()
                for one, chance in enumerate(chances)
            ]
    return cnnh_twin(loss, y, labels) + 0.1 * mean(terms)


TWINS: dict[str, Twin] = {
    "cnnh": cnnh_twin,
    "cnnh-star": cnnh_star_twin,
    "ninh": ninh_twin,
    "dsch": dsch_twin,
    "drsch": drsch_twin,
    "dsrh": dsrh_twin,
    "dpsh": dpsh_twin,
    "hashnet": hashnet_twin,
    "csq": csq_twin,
    "orthohash": orthohash_twin,
}


def own_loss(method: str, labels: Tensor) -> nn.Module:
    sizes = SIZES | {"labels": labels}
    loss = build(OWN_LOSSES, method, "loss", sizes, {}).double()
    generator = torch.Generator().manual_seed(5)
    for parameter in loss.parameters():  # ones and zeros would hide a mistake
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return loss


def test_every_loss_of_a_hash_has_a_twin() -> None:
    hashes = {name for name in OWN_LOSSES if METHODS[name].coder in HASHERS}
    assert TWINS.keys() == hashes


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("method", TWINS)
def test_value_and_gradient_equal_the_loops(method: str, labels: Tensor) -> None:
    loss = own_loss(method, labels)
    fast, slow = (gaussian(ROWS, BITS).double().requires_grad_() for _ in range(2))
    value, expected = loss(fast, labels), TWINS[method](loss, slow, labels)
    torch.testing.assert_close(value, expected)
    leaves = list(loss.parameters())
    found = torch.autograd.grad(value, [fast, *leaves])
    wanted = torch.autograd.grad(expected, [slow, *leaves])
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("method", TWINS)
def test_gradient_equals_differences(method: str) -> None:
    labels = LABELS["one"]
    loss = own_loss(method, labels)
    outputs = gaussian(ROWS, BITS, seed=3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: loss(y, labels), outputs, fast_mode=True)


@pytest.mark.parametrize("method", TWINS)
def test_a_loss_is_calm_where_there_is_little_to_see(method: str) -> None:
    """No rows, one row, equal rows, zeros, one class, and rows without a label."""
    one, several = torch.arange(6) % CLASSES, torch.zeros(6, CLASSES).bool()
    for labels in (one, torch.zeros_like(one), several, ~several):
        loss = own_loss(method, labels)
        for rows in (torch.zeros(6, BITS), torch.ones(6, BITS), gaussian(6, BITS)):
            for count in (0, 1, 6):
                leaf = rows[:count].clone().double().requires_grad_()
                value = loss(leaf, labels[:count])
                (found,) = torch.autograd.grad(value, leaf)
                assert value.isfinite()
                assert found.isfinite().all()


@pytest.mark.parametrize("method", TWINS)
def test_items_take_the_place_of_outputs(method: str) -> None:
    labels, outputs = LABELS["one"], gaussian(ROWS, BITS).double()
    loss = own_loss(method, labels)
    torch.testing.assert_close(
        loss(outputs, labels, items=outputs.clone()), loss(outputs, labels)
    )
    assert type(loss).__name__ in repr(loss)


def corners_twin(y: Tensor, strength: float, power: int) -> Tensor:
    off = [value - (1 if value > 0 else -1) for value in y.flatten()]
    return strength * mean([one.abs() ** power for one in off])


def bimodal_twin(y: Tensor, strength: float) -> Tensor:
    off = [value.tanh().abs() - 1 for value in y.flatten()]
    return strength * mean([torch.log(torch.cosh(one)) for one in off])


def dsrh_term(y: Tensor) -> Tensor:
    means = [sum(column.tanh()) / len(y) for column in y.T]
    return 0.05 / 2 * mean([one**2 for one in means])


TERMS: dict[str, Callable[[Tensor], Tensor]] = {
    "dhn": lambda y: y.shape[1] * bimodal_twin(y, 0.2),
    "dsrh": dsrh_term,
    "dpsh": lambda y: corners_twin(y, 0.1, 2),
    "greedyhash": lambda y: corners_twin(y, 0.1, 3),
    "csq": lambda y: bimodal_twin(y, 1e-3),
}


def test_every_term_of_a_hash_has_a_twin() -> None:
    hashes = {name for name in OWN_TERMS if METHODS[name].coder in HASHERS}
    assert TERMS.keys() == hashes


@pytest.mark.parametrize("method", TERMS)
def test_terms_equal_the_loops(method: str) -> None:
    term = build(OWN_TERMS, method, "regularizer", SIZES, {})
    rows = 2 * gaussian(5, BITS).double()
    torch.testing.assert_close(term(rows, HASHER), TERMS[method](rows))
    assert torch.autograd.gradcheck(lambda y: term(y, HASHER), rows.requires_grad_())
    assert "strength=" in repr(term)
    with pytest.raises(gs.InputError, match="strength must be"):
        build(OWN_TERMS, method, "regularizer", SIZES, {"strength": -1.0})


# --- hash centres, and hashes from a similarity -------------------------------------


@pytest.mark.parametrize("order", [1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64])
def test_hadamard_rows_are_orthogonal_signs(order: int) -> None:
    matrix = hadamard(order)
    assert matrix is not None
    assert torch.equal(matrix @ matrix.T, order * torch.eye(order))
    assert torch.equal(matrix.abs(), torch.ones(order, order))


@pytest.mark.parametrize("bits", [4, 8, 12, 24, 30, 32, 48])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_centers_are_signs_and_as_far_apart_as_can_be_hoped(bits, classes) -> None:
    centers = hash_centers(classes, bits)
    assert centers.shape == (classes, bits)
    assert torch.equal(centers.abs(), torch.ones(classes, bits))
    apart = (bits - centers @ centers.T) / 2
    nearest = apart.fill_diagonal_(bits).min()
    if classes <= bits and hadamard(bits) is not None:
        assert nearest == bits / 2
    elif classes <= 2 ** (bits / 2):
        assert nearest >= bits / 4
    assert torch.equal(hash_centers(classes, bits), centers)


def test_centers_refuse_no_class() -> None:
    with pytest.raises(gs.InputError, match="at least 1 class and 1 bit, got 0 and 8"):
        hash_centers(0, 8)


@pytest.mark.parametrize("bits", [4, 8, 12, 24])
def test_hashes_fit_the_similarity_better_than_drawn_ones(bits: int) -> None:
    """And for ten classes of one size, as well as hashes can: 5 against 5 a bit."""
    wanted = 2 * torch.eye(10) - 1

    def error(hashes: Tensor) -> float:
        return float((wanted - hashes @ hashes.T / bits).square().mean())

    found = similarity_hashes(wanted, torch.ones(10), bits)
    drawn = min(
        error(hash_centers(10, 30, seed)[:, :bits]) for seed in range(20)
    )  # 30 bits have no Hadamard matrix: centres are drawn
    assert error(found) <= drawn
    apart = (bits - found @ found.T) / 2
    assert apart.sum() / 90 >= 0.95 * bits * 50 / 90


def test_a_step_of_the_descent_is_that_of_the_paper() -> None:
    """One entry, with the formulas of the paper on all rows written out."""
    from gradsnap.methods.cnnh import _descend

    labels = torch.arange(9) % 3
    wanted = 2 * (labels[:, None] == labels).double() - 1
    drawn = torch.rand(9, 2, generator=torch.Generator().manual_seed(0)).double()
    hashes = (1 + drawn) / 2
    off = hashes @ hashes.T - 2 * wanted
    i, k = 1, 0
    slope = 4 * sum(off[i, j] * hashes[j, k] for j in range(9))
    curve = 4 * (
        sum(hashes[j, k] ** 2 for j in range(9)) + hashes[i, k] ** 2 + off[i, i]
    )
    expected = hashes.clone()
    expected[i, k] = (hashes[i, k] - slope / curve).clamp(-1, 1)
    assert curve > 0
    _descend(hashes, off, torch.ones(9).double(), i, k)
    torch.testing.assert_close(hashes, expected)
    torch.testing.assert_close(off, hashes @ hashes.T - 2 * wanted)


def test_unseen_sets_of_labels_take_the_hash_of_the_nearest() -> None:
    labels = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    loss = HashRegressionLoss(labels, bits=8)
    near = torch.tensor([[1, 0, 0], [0, 1, 1]]).bool()
    assert torch.equal(loss.targets_of(near)[0], loss.targets_of(labels)[0])


def test_cnnh_says_that_it_needs_labels() -> None:
    with pytest.raises(gs.InputError, match="labels of the training part; got none"):
        HashRegressionLoss(None, bits=8)

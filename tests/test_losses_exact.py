"""Each loss against loops written from its definition, and the laws of each alone."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.losses.pairs import distances
from tests.conftest import gaussian
from tests.platforms import peak_memory

ROWS, DIM, CLASSES = 11, 4, 3

Twin = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Of queries, items and labels."""


def several(rows: int = ROWS, labels: int = CLASSES) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.rand(rows, labels, generator=generator) < 0.45


LABELS = {"one": torch.arange(ROWS) % CLASSES, "several": several()}


def shared(labels: Tensor, i: int, j: int) -> int:
    """How many labels two rows share."""
    if labels.ndim == 1:
        return int(labels[i] == labels[j])
    return sum(bool(a) and bool(b) for a, b in zip(labels[i], labels[j], strict=True))


def pairs(rows: int) -> list[tuple[int, int]]:
    """A query and the item of another row."""
    return list(itertools.permutations(range(rows), 2))


def mean(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).mean()


def triplet_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    hinges = []
    for a, p, n in itertools.permutations(range(len(y)), 3):
        if shared(labels, a, p) and not shared(labels, a, n):
            hinges.append(0.7 + (y[a] - z[p]).norm() - (y[a] - z[n]).norm())
    return mean([hinge for hinge in hinges if hinge > 0])


def contrastive_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for i, j in pairs(len(y)):
        apart = (y[i] - z[j]).norm()
        if shared(labels, i, j):
            terms.append(apart**2 / 2)
        else:
            terms.append(max(torch.zeros(()), 1.5 - apart) ** 2 / 2)
    return mean(terms)


def cosine_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for i, j in pairs(len(y)):
        cosine = y[i] @ z[j] / (y[i].norm() * z[j].norm())
        terms.append(((1 if shared(labels, i, j) else -1) - cosine) ** 2)
    return mean(terms)


def logistic_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for i, j in pairs(len(y)):
        theta = 0.5 * (y[i] @ z[j])
        target = 1 if shared(labels, i, j) else 0
        terms.append(torch.log(1 + torch.exp(theta)) - target * theta)
    return mean(terms)


def listwise_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    lists = []
    for q in range(len(y)):
        total, norm = torch.zeros((), dtype=y.dtype), 0
        others = [i for i in range(len(y)) if i != q]
        for i, j in itertools.permutations(others, 2):
            more, less = shared(labels, q, i), shared(labels, q, j)
            if more > less:
                gap = 0.7 + (y[q] - z[i]).norm() - (y[q] - z[j]).norm()
                total = total + (2**more - 2**less) * gap.clamp_min(0)
                norm += 2**more - 2**less
        if norm:
            lists.append(total / norm)
    return mean(lists)


CLASSIFIER = gs.ClassificationLoss(CLASSES, DIM, seed=3).double()


def supcon_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    losses = []
    for i in range(len(y)):
        others = [j for j in range(len(y)) if j != i]
        weights = {j: torch.exp(-((y[i] - z[j]) ** 2).sum() / 2.0) for j in others}
        alike = [j for j in others if shared(labels, i, j)]
        if alike:
            whole = sum(weights.values())
            losses.append(-mean([torch.log(weights[j] / whole) for j in alike]))
    return mean(losses)


def neighbor_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    others = [(i, j) for i in range(len(y)) for j in range(len(y)) if j != i]
    apart = {(i, j): ((y[i] - z[j]) ** 2).sum() for i, j in others}
    alike = [pair for pair in others if shared(labels, *pair)]
    asking = {i for i, _ in alike}
    tried = mean([apart[i, j] for i, j in others if i in asking])

    def at(temperature: Tensor) -> Tensor:
        weights = {pair: torch.exp(-apart[pair] / temperature) for pair in others}
        wholes = {
            i: torch.stack([weights[pair] for pair in others if pair[0] == i]).sum()
            for i in asking
        }
        terms = [apart[i, j] / temperature + torch.log(wholes[i]) for i, j in alike]
        return mean(terms)

    return min((at(tried * 0.8**step) for step in range(20)), key=Tensor.item)


def classification_twin(y: Tensor, z: Tensor, labels: Tensor) -> Tensor:
    terms = []
    for row, label in zip(z, labels, strict=True):
        logits = [
            weight @ row + bias
            for weight, bias in zip(CLASSIFIER.weight, CLASSIFIER.bias, strict=True)
        ]
        if labels.ndim == 1:
            total = sum(torch.exp(logit) for logit in logits)
            terms.append(-torch.log(torch.exp(logits[int(label)]) / total))
            continue
        for logit, present in zip(logits, label, strict=True):
            chance = 1 / (1 + torch.exp(-logit))
            terms.append(-torch.log(chance if present else 1 - chance))
    return mean(terms)


TWINS: dict[str, tuple[nn.Module, Twin]] = {
    "triplet": (gs.TripletLoss(0.7), triplet_twin),
    "contrastive": (gs.ContrastiveLoss(1.5), contrastive_twin),
    "cosine": (gs.PairwiseCosineLoss(), cosine_twin),
    "logistic": (gs.PairwiseLogisticLoss(0.5), logistic_twin),
    "listwise": (gs.ListwiseLoss(0.7), listwise_twin),
    "supcon": (gs.losses.SupervisedContrastiveLoss(2.0), supcon_twin),
    "neighbors": (gs.NeighborLoss(), neighbor_twin),
    "classification": (CLASSIFIER, classification_twin),
}
OF_PAIRS = [loss for name, (loss, _) in TWINS.items() if name != "classification"]


def test_every_loss_has_a_twin() -> None:
    assert TWINS.keys() == gs.losses.LOSSES.keys()


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(("loss", "twin"), TWINS.values(), ids=TWINS)
def test_value_and_gradient_equal_the_loops(loss, twin, labels) -> None:
    fast, slow = (gaussian(ROWS, DIM).double().requires_grad_() for _ in range(2))
    value, expected = loss(fast, labels), twin(slow, slow, labels)
    value.backward()
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(fast.grad, slow.grad)


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(("loss", "twin"), TWINS.values(), ids=TWINS)
def test_queries_and_items_equal_the_loops(loss, twin, labels) -> None:
    fast, slow = queries_and_items(), queries_and_items()
    value, expected = loss(fast[0], labels, items=fast[1]), twin(*slow, labels)
    torch.testing.assert_close(value, expected)
    found = torch.autograd.grad(value, fast, materialize_grads=True)
    wanted = torch.autograd.grad(expected, slow, materialize_grads=True)
    torch.testing.assert_close(found, wanted)
    is_of_pairs = loss is not CLASSIFIER  # which sees items alone
    assert [bool(one.any()) for one in found] == [is_of_pairs, True]


def queries_and_items() -> tuple[Tensor, Tensor]:
    y = gaussian(ROWS, DIM).double()
    z = y + 0.4 * gaussian(ROWS, DIM, seed=5).double()
    return y.requires_grad_(), z.requires_grad_()


# --- laws of the losses that compare rows -------------------------------------------


@pytest.mark.parametrize("loss", OF_PAIRS, ids=repr)
def test_one_class_a_row_is_one_hot(loss) -> None:
    embeddings, labels = gaussian(ROWS, DIM), LABELS["one"]
    one_hot = nn.functional.one_hot(labels).bool()
    torch.testing.assert_close(loss(embeddings, one_hot), loss(embeddings, labels))


@pytest.mark.parametrize("loss", OF_PAIRS, ids=repr)
def test_names_of_classes_do_not_matter(loss) -> None:
    embeddings, labels = gaussian(ROWS, DIM), LABELS["one"]
    assert loss(embeddings, 7 - 3 * labels) == loss(embeddings, labels)


@pytest.mark.parametrize("loss", OF_PAIRS, ids=repr)
def test_near_positive_and_far_negative_beats_the_reverse(loss) -> None:
    labels = torch.tensor([0, 0, 1])
    good = torch.tensor([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.2]])
    assert loss(good, labels) < loss(good[[0, 2, 1]], labels)


@pytest.mark.parametrize("loss", [gs.TripletLoss(), gs.ListwiseLoss()], ids=repr)
def test_ranked_rows_cost_nothing(loss) -> None:
    embeddings, labels = gaussian(ROWS, DIM).double(), LABELS["one"]
    far = 0.01 * embeddings + 100 * labels[:, None]
    assert loss(far, labels) == 0


@pytest.mark.parametrize("loss", [gs.TripletLoss(), gs.ListwiseLoss()], ids=repr)
def test_nothing_to_rank_is_zero_and_has_a_gradient(loss) -> None:
    embeddings = gaussian(ROWS, DIM).requires_grad_()
    for labels in (torch.zeros(ROWS, dtype=torch.int64), torch.arange(ROWS)):
        value = loss(embeddings, labels)
        value.backward()
        assert value == 0


@pytest.mark.parametrize(
    "loss", [gs.TripletLoss(), gs.ListwiseLoss(), gs.ContrastiveLoss()], ids=repr
)
def test_losses_of_distances_do_not_see_where_the_batch_lies(loss) -> None:
    embeddings, labels = gaussian(ROWS, DIM), LABELS["one"]
    torch.testing.assert_close(
        loss(embeddings + 100, labels), loss(embeddings, labels), rtol=1e-3, atol=1e-4
    )


def test_listwise_of_one_class_a_row_weighs_all_triplets_alike() -> None:
    y, labels = gaussian(12, DIM).double(), torch.arange(12) % 3
    hinges = [
        (0.7 + (y[a] - y[p]).norm() - (y[a] - y[n]).norm()).clamp_min(0)
        for a, p, n in itertools.permutations(range(12), 3)
        if labels[a] == labels[p] != labels[n]
    ]
    torch.testing.assert_close(gs.ListwiseLoss(0.7)(y, labels), mean(hinges))


def test_listwise_prefers_more_shared_labels_nearer() -> None:
    labels = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 0]]).bool()
    graded = torch.tensor([[0.0], [1.0], [3.0], [6.0]])
    swapped = torch.tensor([[0.0], [3.0], [1.0], [6.0]])
    assert gs.ListwiseLoss()(graded, labels) < gs.ListwiseLoss()(swapped, labels)


def test_cosine_loss_does_not_see_lengths() -> None:
    embeddings, labels = gaussian(ROWS, DIM).double(), LABELS["one"]
    longer = embeddings * torch.arange(1, ROWS + 1)[:, None]
    loss = gs.PairwiseCosineLoss()
    torch.testing.assert_close(loss(longer, labels), loss(embeddings, labels))


def test_logistic_loss_is_linear_where_exp_overflows() -> None:
    embeddings = torch.tensor([[1e3, 0.0], [-1e3, 0.0]])
    assert gs.PairwiseLogisticLoss()(embeddings, torch.tensor([0, 0])) == 1e6
    assert gs.PairwiseLogisticLoss()(embeddings, torch.tensor([0, 1])) == 0


def test_classification_starts_near_chance_and_learns_its_weights() -> None:
    loss = gs.ClassificationLoss(10, 16)
    embeddings, labels = gaussian(200, 16), torch.arange(200) % 10
    assert abs(loss(0.1 * embeddings, labels).item() - math.log(10)) < 0.05
    loss(embeddings, labels).backward()
    assert {name for name, p in loss.named_parameters() if p.grad is not None} == {
        "weight",
        "bias",
    }


def test_classification_seed_is_used() -> None:
    first, again = gs.ClassificationLoss(3, 4), gs.ClassificationLoss(3, 4)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, gs.ClassificationLoss(3, 4, seed=1).weight)


def test_classification_refuses_what_does_not_fit() -> None:
    loss = gs.ClassificationLoss(3, DIM)
    embeddings = gaussian(2, DIM)
    for labels, message in (
        (torch.tensor([0, 3]), r"lie in 0..2, got 0..3"),
        (torch.tensor([-1, 1]), r"lie in 0..2, got -1..1"),
        (torch.ones(2, 4).bool(), "expected 3 labels a row, got 4"),
    ):
        with pytest.raises(gs.InputError, match=message):
            loss(embeddings, labels)
    with pytest.raises(gs.InputError, match=r"\(n, 4\), got \(2, 7\)"):
        loss(gaussian(2, 7), torch.tensor([0, 1]))
    with pytest.raises(gs.InputError, match="got num_classes=1 and dim=4"):
        gs.ClassificationLoss(1, 4)


# --- distances, and triplets given or all -------------------------------------------


def test_distances_equal_the_loop_and_are_zero_where_equal() -> None:
    y = gaussian(9, DIM)
    y[4] = y[2]
    expected = torch.tensor([[float((a - b).norm()) for b in y] for a in y])
    torch.testing.assert_close(distances(y), expected)
    assert distances(y + 50)[2, 4] == 0


def test_distances_to_items_equal_the_loop_and_are_zero_where_equal() -> None:
    y, z = gaussian(9, DIM), gaussian(9, DIM, seed=1)
    z[4] = y[2]
    expected = torch.tensor([[float((a - b).norm()) for b in z] for a in y])
    torch.testing.assert_close(distances(y, z), expected)
    assert distances(y + 50, z + 50)[2, 4] == 0


def test_rows_too_near_to_tell_apart_give_no_wild_gradient() -> None:
    y = (gaussian(1, DIM) + 1e-4 * gaussian(8, DIM, seed=1)).requires_grad_()
    distances(y + 1000 * torch.eye(8, DIM))[0].sum().backward()
    assert y.grad is not None
    assert y.grad.norm(dim=1).max() < 8  # a sum of seven unit vectors at most


@pytest.mark.parametrize("apart", [False, True], ids=["alone", "items"])
def test_given_triplets_equal_the_loop(apart: bool) -> None:
    y, z = queries_and_items()
    items, labels = z if apart else y, LABELS["one"]
    generator = torch.Generator().manual_seed(1)
    given = torch.randint(ROWS, (3, 20), generator=generator)
    hinges = [
        0.3 + (y[a] - items[p]).norm() - (y[a] - items[n]).norm()
        for a, p, n in given.T.tolist()
    ]
    expected = mean([hinge for hinge in hinges if hinge > 0])
    a, p, n = given
    value = gs.TripletLoss(0.3)(y, labels, (a, p, n), items=z if apart else None)
    torch.testing.assert_close(value, expected)


def test_no_triplets_cost_nothing() -> None:
    none = torch.empty(0, dtype=torch.int64)
    y = gaussian(ROWS, DIM).requires_grad_()
    value = gs.TripletLoss()(y, LABELS["one"], (none, none, none))
    value.backward()
    assert value == 0


def test_triplets_that_do_not_fit_are_refused() -> None:
    y, two, three = gaussian(3, DIM), torch.tensor([0, 1]), torch.tensor([0, 1, 3])
    labels = torch.tensor([0, 0, 1])
    with pytest.raises(gs.InputError, match=r"three tensors \(t,\), got \[\(2,\), \(3"):
        gs.TripletLoss()(y, labels, (two, three, three))
    with pytest.raises(gs.InputError, match=r"rows 0..2 of the batch, got 0..3"):
        gs.TripletLoss()(y, labels, (three, three, three))


def test_all_triplets_of_a_large_batch_fit_in_little_memory() -> None:
    y = gaussian(1024, 16).requires_grad_()
    before = peak_memory()
    gs.TripletLoss()(y, torch.arange(1024) % 2).backward()
    gs.TripletLoss()(y, torch.arange(1024) % 2, items=y + 1).backward()
    assert peak_memory() - before < 400 * 1024  # n³ floats would be 4 GiB

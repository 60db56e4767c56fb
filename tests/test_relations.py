"""Relations in place of labels: equal where they say the same, and unknown pairs."""

import itertools

import pytest
import torch
from torch import Tensor, nn

import gradsnap as gs
from gradsnap.losses import LOSSES, build_loss
from gradsnap.losses.pairs import alike_and_unlike
from gradsnap.triplets import SELECTORS
from tests.conftest import gaussian

ROWS, DIM = 12, 5
LABELS = torch.arange(ROWS) % 3
PAIR_LOSSES = [name for name in LOSSES if name != "classification"]


def of_labels(labels: Tensor = LABELS) -> gs.Relations:
    return gs.Relations(*alike_and_unlike(labels))


def some(seed: int = 0, share: float = 0.5) -> gs.Relations:
    """What labels say of a share of the pairs; nothing of the first row."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.rand(ROWS, ROWS, generator=generator).triu(1) > 1 - share
    known = known | known.T
    known[0], known[:, 0] = False, False
    alike, unlike = alike_and_unlike(LABELS)
    return gs.Relations(alike & known, unlike & known)


def pairs_of(mask: Tensor) -> list[tuple[int, int]]:
    every = itertools.permutations(range(len(mask)), 2)
    return [(i, j) for i, j in every if bool(mask[i, j])]


@pytest.fixture(params=PAIR_LOSSES)
def loss(request: pytest.FixtureRequest) -> nn.Module:
    return build_loss(request.param, DIM, 3)


def test_relations_of_labels_give_the_loss_of_labels(loss: nn.Module) -> None:
    y, items = gaussian(ROWS, DIM), gaussian(ROWS, DIM, 1)
    assert loss(y, LABELS) == loss(y, of_labels())
    assert loss(y, LABELS, items=items) == loss(y, of_labels(), items=items)


def test_unknown_pairs_do_not_count(loss: nn.Module) -> None:
    """A row of which nothing is known may be anywhere."""
    y = gaussian(ROWS, DIM).double()
    moved = torch.cat([y[:1] + 100, y[1:]]).requires_grad_()
    fixed = [loss.compare(rows, None)[1:, 1:] for rows in (y, moved)]  # type: ignore[operator]
    torch.testing.assert_close(*fixed)
    value = loss(moved, some())
    torch.testing.assert_close(value, loss(y, some()))
    (gradient,) = torch.autograd.grad(value, moved)
    assert gradient[0].abs().sum() == 0
    assert gradient[1:].abs().sum() > 0


def test_nothing_known_gives_zero_and_no_nan(loss: nn.Module) -> None:
    nothing = torch.zeros(ROWS, ROWS, dtype=torch.bool)
    y = gaussian(ROWS, DIM).requires_grad_()
    value = loss(y, gs.Relations(nothing, nothing))
    (gradient,) = torch.autograd.grad(value, y)
    assert value == 0
    assert gradient.abs().sum() == 0


def test_relations_that_do_not_fit_are_refused(loss: nn.Module) -> None:
    y, known = gaussian(ROWS, DIM), of_labels()
    for bad in (
        gs.Relations(known.alike[:5], known.unlike),
        gs.Relations(known.alike, known.unlike.float()),
        gs.Relations(known.alike, known.unlike, known.alike),
        gs.Relations(known.alike, known.unlike, torch.ones(3)),
    ):
        with pytest.raises(gs.InputError, match=r"\(12, 12\), ?got"):
            loss(y, bad)


def test_classification_asks_for_labels() -> None:
    loss = build_loss("classification", DIM, 3)
    with pytest.raises(gs.InputError, match=r"needs labels.*supcon"):
        loss(gaussian(ROWS, DIM), of_labels())


# --- slow twins: one pair after the other, from the formula --------------------------


def twin(name: str, y: Tensor, known: gs.Relations) -> Tensor:
    """A loss of pairs as the mean of a term for each known pair."""
    terms = {
        "contrastive": (
            lambda d, _, __: d**2 / 2,
            lambda d, _, __: max(0, 1 - d) ** 2 / 2,
        ),
        "cosine": (lambda _, c, __: (1 - c) ** 2, lambda _, c, __: (-1 - c) ** 2),
        "logistic": (
            lambda _, __, p: torch.log1p((-p).exp()),
            lambda _, __, p: torch.log1p(p.exp()),
        ),
    }[name]
    found = []
    for mask, term in zip((known.alike, known.unlike), terms, strict=True):
        for i, j in pairs_of(mask):
            product = y[i] @ y[j]
            found.append(
                term((y[i] - y[j]).norm(), product / y[i].norm() / y[j].norm(), product)
            )
    return torch.stack([torch.as_tensor(one, dtype=y.dtype) for one in found]).mean()


@pytest.mark.parametrize("name", ["contrastive", "cosine", "logistic"])
def test_pair_losses_equal_a_loop_over_known_pairs(name: str) -> None:
    y, known = gaussian(ROWS, DIM).double(), some()
    torch.testing.assert_close(build_loss(name, DIM, 3)(y, known), twin(name, y, known))


def test_triplet_loss_equals_a_loop_over_known_triplets() -> None:
    y, known = gaussian(ROWS, DIM).double(), some()
    gaps = [
        1 + (y[a] - y[p]).norm() - (y[a] - y[n]).norm()
        for a, p in pairs_of(known.alike)
        for b, n in pairs_of(known.unlike)
        if a == b
    ]
    violated = [gap for gap in gaps if gap > 0]
    expected = torch.stack(violated).mean()
    torch.testing.assert_close(gs.TripletLoss()(y, known), expected)


@pytest.mark.parametrize("graded", [False, True])
def test_supcon_equals_soft_targets_over_known_pairs(graded: bool) -> None:
    y, known = gaussian(ROWS, DIM).double(), some()
    grades = gaussian(ROWS, ROWS, 2).double().exp()
    if graded:
        known = gs.Relations(known.alike, known.unlike, grades)
    losses = []
    for i in range(ROWS):
        near = [j for a, j in pairs_of(known.alike) if a == i]
        every = near + [j for a, j in pairs_of(known.unlike) if a == i]
        if near:
            apart = {j: (y[i] - y[j]).square().sum() for j in every}
            total = torch.stack([(-one).exp() for one in apart.values()]).sum()
            weights = torch.stack([grades[i, j] for j in near])
            weights = weights if graded else torch.ones_like(weights)
            logs = torch.stack([-apart[j] - total.log() for j in near])
            losses.append(-(weights * logs).sum() / weights.sum())
    expected = torch.stack(losses).mean()
    torch.testing.assert_close(gs.SupervisedContrastiveLoss()(y, known), expected)


def test_listwise_loss_ranks_by_grades() -> None:
    """Levels 2 and 1 of grades 3 and 1, and 0 for unlike: three hinges."""
    y = torch.tensor([[0.0], [2.0], [1.0], [0.5]])
    alike, unlike = torch.zeros(2, 4, 4, dtype=torch.bool)
    alike[0, 1], alike[0, 2], unlike[0, 3] = True, True, True
    grades = torch.tensor([[0.0, 3, 1, 0]]).expand(4, 4)
    weights = [2**2 - 2**1, 2**2 - 2**0, 2**1 - 2**0]
    gaps = [1 + 2 - 1, 1 + 2 - 0.5, 1 + 1 - 0.5]
    total = sum(w * gap for w, gap in zip(weights, gaps, strict=True))
    found = gs.ListwiseLoss()(y, gs.Relations(alike, unlike, grades))
    assert found == pytest.approx(total / sum(weights))


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_choose_known_triplets_only(name: str) -> None:
    y, known = gaussian(ROWS, DIM), some()
    a, p, n = SELECTORS[name]().select(y, known)
    assert len(a)
    assert known.alike[a, p].all()
    assert known.unlike[a, n].all()

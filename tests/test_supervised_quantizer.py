"""Supervised quantization: its laws, and that labels make codes rank better."""

import functools

import pytest
import torch
from torch import Tensor

from gradsnap.coders.quantizers import CompositeQuantizer, SupervisedQuantizer
from gradsnap.coders.quantizers.supervised import ridge_regression
from gradsnap.errors import InputError, NotFittedError
from gradsnap.evaluation import CodeDistances, RankingRules, evaluate
from tests.conftest import gaussian

DIM, CLASSES = 12, 4
RULES = RankingRules(None, "relevant", "zero")


def classes(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Four classes told apart by few directions, under much louder ones."""
    labels = torch.arange(rows) % CLASSES
    x = gaussian(rows, DIM, seed)
    x[:, :6] *= 4
    x[:, 6:] += 1.5 * gaussian(CLASSES, DIM - 6, seed=99)[labels]
    return x, labels


@functools.cache
def fitted() -> SupervisedQuantizer:
    return SupervisedQuantizer(DIM, 2, 8, projected_dim=6, iterations=1).fit(
        *classes(120)
    )


def measured(model: SupervisedQuantizer | CompositeQuantizer) -> float:
    x, labels = classes(200, seed=1)
    codes = model.encode(x)
    table = CodeDistances(model, x[:40], codes)
    return evaluate(table, labels[:40], labels, RULES).map


def test_labels_make_codes_rank_better() -> None:
    plain = CompositeQuantizer(DIM, 2, 8, iterations=2).fit(classes(120)[0])
    assert measured(fitted()) > measured(plain) + 0.2


def test_codes_and_distances_are_those_of_mapped_rows() -> None:
    model, (x, _) = fitted(), classes(30, seed=2)
    codes = model.encode(x)
    assert codes.shape == (30, 2)
    assert model.bits == 6
    wanted = model.quantizer.distances(model.project(x[:5]), codes)
    assert torch.equal(model.distances(x[:5], codes), wanted)
    torch.testing.assert_close(model.project(x), (x - model.mean) @ model.projection)


def test_fitting_twice_is_equal_and_several_labels_are_learned() -> None:
    x, labels = classes(60)
    once = SupervisedQuantizer(DIM, 2, 4, projected_dim=4, iterations=1)
    once.fit(x, labels)
    again = SupervisedQuantizer(**once.config()).fit(x, labels)
    assert torch.equal(once.encode(x), again.encode(x))
    many = torch.nn.functional.one_hot(labels).bool()
    alike = SupervisedQuantizer(**once.config()).fit(x, many)
    assert torch.equal(alike.encode(x), once.encode(x))


def test_regression_is_ridge_regression() -> None:
    x, targets = gaussian(50, 4), gaussian(50, 3, seed=1)
    weights = ridge_regression(x, targets, 0.1)
    amount = 0.1 * float((x.T @ x).diagonal().mean())
    gradient = x.T @ (x @ weights - targets) + amount * weights
    assert float(gradient.abs().max()) < 1e-3


def test_refusals() -> None:
    x, labels = classes(20)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        SupervisedQuantizer(DIM, 2, 4, projected_dim=4).encode(x)
    with pytest.raises(InputError, match="projected_dim must be 1 to 12, got 13"):
        SupervisedQuantizer(DIM, 2, 4, projected_dim=13)
    with pytest.raises(InputError, match="above 0"):
        SupervisedQuantizer(DIM, 2, 4, projected_dim=4, coupling=0)
    with pytest.raises(InputError, match="one label for each of 20 rows"):
        SupervisedQuantizer(DIM, 2, 4, projected_dim=4).fit(x, labels[:3])
    with pytest.raises(InputError, match="needs at least 2, got 1"):
        SupervisedQuantizer(DIM, 2, 4, projected_dim=4).fit(x[:1], labels[:1])

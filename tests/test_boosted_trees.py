"""FastHash's two steps: exact cuts beside every choice, trees beside scikit-learn."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from gradsnap.coders.hashers import BoostedTreeHasher
from gradsnap.coders.hashers.fasthash import (
    LEARNING_RATE,
    Trees,
    _both_sides,
    _round_down,
    _weights,
)
from gradsnap.coders.hashers.graph_cuts import Pairs, best_bit
from gradsnap.errors import InputError
from tests.conftest import clustered


def multi_hot(rows: int, labels: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    hot = generator.random((rows, labels)) < 0.4
    hot[0] = False  # a row without a label
    return hot


# --- pairs and cuts -------------------------------------------------------------


def test_pairs_are_what_they_say() -> None:
    hot = multi_hot(40, 4)
    pairs = Pairs.draw(hot, 5, np.random.default_rng(0))
    shared = (hot[pairs.left] & hot[pairs.right]).any(axis=1)
    assert np.array_equal(shared, pairs.similar)
    assert (pairs.left < pairs.right).all()
    both = set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    assert len(both) == len(pairs.left)
    assert 0.2 < pairs.similar.mean() < 0.8


def test_blocks_are_all_alike_and_hold_every_row_once() -> None:
    hot = multi_hot(40, 4)
    pairs = Pairs.draw(hot, 2, np.random.default_rng(0))
    assert sorted(np.concatenate(pairs.blocks).tolist()) == list(range(40))
    for block in pairs.blocks:
        for i, j in itertools.combinations(block, 2):
            assert (hot[i] & hot[j]).any()


def energy(pairs: Pairs, weights: np.ndarray, signs: np.ndarray) -> int:
    return int((weights * signs[pairs.left] * signs[pairs.right]).sum())


@pytest.mark.parametrize("seed", range(6))
def test_a_cut_is_the_best_of_every_choice(seed: int) -> None:
    """One block with fixed rows around it: all 2^b choices of the block are tried."""
    generator = np.random.default_rng(seed)
    size, inner = 10, 6
    places = list(itertools.combinations(range(size), 2))
    left, right = (np.array(side) for side in zip(*places, strict=True))
    similar = right < inner
    weights = np.where(similar, -generator.integers(0, 4, len(left)), 0)
    weights = np.where(similar, weights, generator.integers(-5, 6, len(left)))
    pairs = Pairs(left, right, similar, (np.arange(inner),))
    start = generator.choice(np.array([-1, 1]), size)
    found = best_bit(pairs, weights, start, sweeps=1)
    assert np.array_equal(found[inner:], start[inner:])
    tried = [
        energy(pairs, weights, np.concatenate([choice, start[inner:]]))
        for choice in itertools.product((-1, 1), repeat=inner)
    ]
    assert energy(pairs, weights, found) == min(tried)


def test_sweeps_never_raise_the_energy() -> None:
    hot = np.eye(3, dtype=bool)[np.arange(60) % 3]
    pairs = Pairs.draw(hot, 8, np.random.default_rng(0))
    weights = np.where(pairs.similar, -2, 1)
    signs = np.random.default_rng(1).choice(np.array([-1, 1]), 60)
    before = energy(pairs, weights, signs)
    for _ in range(3):
        signs = best_bit(pairs, weights, signs, sweeps=1)
        assert energy(pairs, weights, signs) <= before
        before = energy(pairs, weights, signs)


@pytest.mark.parametrize("bit", [0, 1, 5])
def test_weights_are_the_loss_of_equal_less_unequal(bit: int) -> None:
    for distance, similar in itertools.product(range(bit + 1), (True, False)):

        def loss(d: int, alike: bool = similar) -> float:
            return d**2 if alike else max((bit + 1) / 2 - d, 0) ** 2

        found = _weights(np.array([distance]), np.array([similar]), bit)
        assert found[0] / 4 == loss(distance) - loss(distance + 1)


def test_a_bit_has_two_sides() -> None:
    assert _both_sides(np.array([1, 1, 1])).tolist() == [False, True, True]
    assert _both_sides(np.array([-1, -1])).tolist() == [True, False]
    assert _both_sides(np.array([-1, 1])).tolist() == [False, True]


# --- trees ----------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 3])
def test_trees_equal_scikit_learns(depth: int) -> None:
    x = clustered(200).numpy()
    bits = (x[:, 0] * x[:, 1] > 0) | (x[:, 2] > 1)
    grown = Trees.grow(x, bits, 7, depth, seed=0)
    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_iter=7,
        max_depth=depth,
        max_leaf_nodes=2**depth,
        early_stopping=False,
        random_state=0,
    ).fit(x, bits)
    unseen = torch.cat([torch.from_numpy(x), clustered(300, seed=5)])
    wanted = torch.from_numpy(model.decision_function(unseen.numpy())).float()
    torch.testing.assert_close(grown.score(unseen), wanted, rtol=1e-4, atol=1e-5)


def test_thresholds_keep_every_float_on_its_side() -> None:
    values = np.array([1.0, 1.0 + 2**-24, 0.1, -0.1])
    found = _round_down(values)
    assert (found.astype(np.float64) <= values).all()
    above = np.nextafter(found, np.float32(np.inf)).astype(np.float64)
    assert (above > values).all()


def test_refusals() -> None:
    for wrong in ({"trees": 0}, {"depth": 9}, {"pairs": 0}):
        with pytest.raises(InputError, match="at least one tree and pair"):
            BoostedTreeHasher(8, 4, **wrong)

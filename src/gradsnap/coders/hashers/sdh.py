"""SDH: supervised discrete hashing, bits found one at a time without relaxing them."""

from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.hashers.anchored import (
    AnchoredHasher,
    AnchorOptions,
    gram_factor,
)
from gradsnap.coders.hashers.hasher import signs_of
from gradsnap.coders.similarity import many_hot

SWEEPS = 10
"""Passes over the bits in one step, unless nothing changes before."""


class DiscreteHasher(AnchoredHasher):
    """SDH (Shen et al. 2015): hashes from which a linear classifier reads the labels.

    Minimizes ‖Y − B W‖² + λ‖W‖² + ν‖B − F(x)‖² over hashes B in {−1, 1}, a classifier
    W and a kernel regression F, in turn: W and F in closed form, B bit by bit, each
    bit in closed form given the others.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of the anchors and the first hashes.
        num_anchors: how many; no more are taken than there are rows.
        ridge: of the regression F, relative to the mean square of its features.
        penalty: λ.
        coupling: ν, how much hashes follow F while they are found.
        iterations: of all three steps.
    """

    def __init__(
        self,
        dim: int,
        bits: int,
        *,
        penalty: float = 1.0,
        coupling: float = 1e-5,
        iterations: int = 5,
        **anchored: Unpack[AnchorOptions],
    ) -> None:
        super().__init__(dim, bits, **anchored)
        self.penalty, self.coupling = penalty, coupling
        self.iterations = iterations

    def _weights(self, features: Tensor, labels: Tensor) -> Tensor:
        targets = many_hot(labels).to(features)  # (n, L)
        factor = gram_factor(features, self.ridge)
        size = (len(features), self.bits)
        signs = signs_of(torch.randn(size, generator=self._generator())).to(features)
        weights = torch.cholesky_solve(features.T @ signs, factor)
        for _ in range(self.iterations):
            classifier = self._classifier(signs, targets)  # (bits, L)
            pull = targets @ classifier.T + self.coupling * (features @ weights)
            signs = cyclic_descent(signs, pull, classifier)
            weights = torch.cholesky_solve(features.T @ signs, factor)
        return weights

    def _classifier(self, signs: Tensor, targets: Tensor) -> Tensor:
        """W = (BᵀB + λI)⁻¹ BᵀY, (bits, L)."""
        gram = signs.T @ signs
        gram.diagonal().add_(self.penalty)
        solved: Tensor = torch.linalg.solve(gram, signs.T @ targets)
        return solved


def cyclic_descent(signs: Tensor, pull: Tensor, classifier: Tensor) -> Tensor:
    """Least ‖B W‖² − 2 tr(B Qᵀ) over B in {−1, 1}, each bit given the others.

    Args:
        signs: B to start from, (n, bits).
        pull: Q = Y Wᵀ + ν F(x), (n, bits).
        classifier: W, (bits, L).
    """
    signs, products = signs.clone(), classifier @ classifier.T  # (bits, bits)
    for _ in range(SWEEPS):
        before = signs.clone()
        for k in range(signs.shape[1]):
            others = signs @ products[:, k] - signs[:, k] * products[k, k]
            signs[:, k] = signs_of(pull[:, k] - others)
        if torch.equal(signs, before):
            break
    return signs

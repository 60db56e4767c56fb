"""KSH: supervised hashing with kernels, bits learned greedily one after the other."""

from typing import Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.hashers.anchored import (
    AnchoredHasher,
    AnchorOptions,
    gram_factor,
)
from gradsnap.coders.hashers.hasher import signs_of
from gradsnap.coders.rotations import orient
from gradsnap.coders.similarity import Similarity
from gradsnap.errors import InputError
from gradsnap.progress import track

SMALL_FORM = 64
"""Up to this size all eigenvectors cost less than a search for one."""


class KernelHasher(AnchoredHasher):
    """KSH (Liu et al. 2012): inner products of hashes equal to the similarity.

    Minimizes ‖H Hᵀ − bits · S‖² bit by bit: what a bit should bring is the residue
    R = bits · S − Σ h hᵀ of the bits before it. Its weights a start from the direction
    that maximizes ⟨Fa, R Fa⟩ under ‖Fa‖ = 1, and climb the smooth objective
    ⟨h, R h⟩ with h = tanh(Fa / 2) by accelerated gradient steps.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of the anchors.
        num_anchors: how many; no more are taken than there are rows.
        ridge: of the norm ‖Fa‖, relative to the mean square of the features.
        iterations: gradient steps for each bit.
        rows: labelled rows it learns from; of more a seeded sample is taken, as in
            the paper, since each step goes through all of them.
    """

    def __init__(
        self,
        dim: int,
        bits: int,
        *,
        iterations: int = 50,
        rows: int = 10_000,
        **anchored: Unpack[AnchorOptions],
    ) -> None:
        super().__init__(dim, bits, **anchored)
        if rows < 2:
            raise InputError(f"rows must be at least 2, got {rows}")
        self.iterations, self.rows = iterations, rows

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        if len(x) > self.rows:
            order = torch.randperm(len(x), generator=self._generator())
            drawn = order[: self.rows].to(x.device)
            x, labels = x[drawn], labels[drawn]
        super()._fit(x, labels)

    def _weights(self, features: Tensor, labels: Tensor) -> Tensor:
        similarity = Similarity.of(labels)
        factor = gram_factor(features, self.ridge)
        # In these coordinates ‖Fa‖² with its ridge is ‖b‖², a = factor⁻ᵀ b.
        white = torch.linalg.solve_triangular(factor, features.T, upper=False).T
        residue = Residue(similarity, self.bits, features.new_empty(len(features), 0))
        sums = similarity.sum_by_set(white)
        form = self.bits * sums.T @ similarity.table.to(sums) @ sums  # FᵀRF, (m, m)
        found = []
        for _ in track(range(self.bits), "learning bits"):
            start = leading_direction(form)
            b = self._climb(white, residue, start * len(white) ** 0.5)
            signs = signs_of(white @ b)
            residue = residue.without(signs)
            seen = white.T @ signs
            form -= seen[:, None] * seen
            found.append(b)
        directions = torch.stack(found, dim=1)  # (m, bits)
        solved: Tensor = torch.linalg.solve_triangular(factor.T, directions, upper=True)
        return solved

    def _climb(self, white: Tensor, residue: "Residue", b: Tensor) -> Tensor:
        """Nesterov's steps up ⟨h, R h⟩, halving the step that goes down, (m,)."""
        best, ahead = b, b
        value, gradient = _objective(white, residue, ahead)
        highest, step, weight = value, 0.0, 1.0
        for _ in range(self.iterations):
            if step == 0.0:
                step = float(0.1 * b.norm() / gradient.norm().clamp_min(1e-12))
            tried = ahead + step * gradient
            value, _ = _objective(white, residue, tried)
            if value <= highest:
                step, ahead, weight = step / 2, best, 1.0
                _, gradient = _objective(white, residue, ahead)
                continue
            following = (1 + (1 + 4 * weight**2) ** 0.5) / 2
            ahead = tried + (weight - 1) / following * (tried - best)
            best, highest, weight = tried, value, following
            _, gradient = _objective(white, residue, ahead)
        return best


class Residue:
    """R = bits · S − Σ h hᵀ over the bits so far, never made whole.

    Args:
        similarity: S, of n rows.
        bits: the number of bits there will be.
        hashes: −1 and 1 of the bits so far, (n, k).
    """

    def __init__(self, similarity: Similarity, bits: int, hashes: Tensor) -> None:
        self.similarity, self.bits, self.hashes = similarity, bits, hashes

    def times(self, values: Tensor) -> Tensor:
        """R values, (n, c), of values (n, c)."""
        explained = self.hashes @ (self.hashes.T @ values)
        return self.bits * self.similarity.times(values) - explained

    def without(self, signs: Tensor) -> "Residue":
        """What is left after one more bit (n,)."""
        hashes = torch.cat([self.hashes, signs[:, None]], dim=1)
        return Residue(self.similarity, self.bits, hashes)


def leading_direction(form: Tensor) -> Tensor:
    """The unit vector b (m,) with the largest ⟨b, A b⟩, for symmetric A (m, m)."""
    if len(form) <= SMALL_FORM:
        small: Tensor = torch.linalg.eigh(form.double()).eigenvectors[:, -1]
        return orient(small).to(form)
    large = torch.from_numpy(_lanczos(form.double().cpu().numpy()))
    return orient(large).to(form)


def _lanczos(form: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for a large form, by products with it alone."""
    from scipy.sparse.linalg import ArpackError, eigsh

    # ARPACK would draw its own start. This one is orthogonal to no direction that a
    # form of data has, other than by accident.
    start = np.cos(np.arange(len(form)))
    try:
        found: NDArray[np.float64] = eigsh(form, k=1, which="LA", v0=start)[1][:, 0]
    except ArpackError:  # the form is zero, or its two largest values are too near
        found = np.linalg.eigh(form)[1][:, -1]
    return found


def _objective(white: Tensor, residue: Residue, b: Tensor) -> tuple[float, Tensor]:
    """⟨h, R h⟩ and its gradient (m,) at b (m,), with h = tanh(Fb / 2)."""
    h = (white @ b / 2).tanh()
    pulled = residue.times(h[:, None])[:, 0]
    return float(h @ pulled), white.T @ (pulled * (1 - h * h))

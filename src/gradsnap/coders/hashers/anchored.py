"""What the kernel hashers share: signs of weighted likeness to anchors."""

from abc import abstractmethod
from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher, Seeded
from gradsnap.errors import InputError

WIDTH_ROWS = 2000
"""Rows the width of the kernel is measured on."""


class AnchorOptions(Seeded, total=False):
    """Options of hashers that are linear in likeness to anchors."""

    num_anchors: int
    ridge: float


class AnchoredHasher(Hasher):
    """Bit k of a vector is ``⟨φ(x) − mean, weights k⟩ > 0``, φ its likeness to anchors.

    φᵢ(x) = exp(−‖x − aᵢ‖² / width); anchors are rows drawn from those ``fit`` sees,
    and the width is their mean squared distance to the rows.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of everything random in ``fit``.
        num_anchors: how many; no more are taken than there are rows.
        ridge: weight of the squared weights, relative to the mean square of φ.
    """

    supervised = True

    anchors: Tensor
    width: Tensor
    mean: Tensor
    weights: Tensor

    def __init__(
        self,
        dim: int,
        bits: int,
        *,
        num_anchors: int = 1000,
        ridge: float = 1e-3,
        **seeded: Unpack[Seeded],
    ) -> None:
        super().__init__(dim, bits, **seeded)
        if num_anchors < 1:
            raise InputError(f"num_anchors must be at least 1, got {num_anchors}")
        self.num_anchors, self.ridge = num_anchors, ridge
        self.register_buffer("anchors", torch.zeros(num_anchors, dim))
        self.register_buffer("width", torch.ones(()))
        self.register_buffer("mean", torch.zeros(num_anchors))
        self.register_buffer("weights", torch.zeros(num_anchors, bits))

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        found = random_rows(x, self.num_anchors, self._generator())
        width = kernel_width(x, found)
        features = likeness(x, found, width)  # (n, m)
        mean = features.mean(dim=0)
        features -= mean
        self.anchors.zero_()[: len(found)] = found
        self.width.fill_(width)
        self.mean.zero_()[: len(found)] = mean
        self.weights.zero_()[: len(found)] = self._weights(features, labels)

    @abstractmethod
    def _weights(self, features: Tensor, labels: Tensor) -> Tensor:
        """Weights (m, bits) for centred features (n, m) and their labels."""

    def _signs(self, x: Tensor) -> Tensor:
        features = likeness(x, self.anchors, float(self.width))
        return (features - self.mean) @ self.weights > 0


def gram_factor(features: Tensor, ridge: float) -> Tensor:
    """Lower Cholesky factor of FᵀF + ridge · mean diagonal, (m, m)."""
    gram = features.T @ features
    gram.diagonal().add_(max(ridge, 1e-6) * float(gram.diagonal().mean()) + 1e-12)
    factor: Tensor = torch.linalg.cholesky(gram)
    return factor


def random_rows(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """So many different rows of x (n, dim), or all if there are fewer."""
    return x[torch.randperm(len(x), generator=generator)[:count].to(x.device)]


def kernel_width(x: Tensor, anchors: Tensor) -> float:
    """Mean squared distance of rows to anchors: the scale at which they differ."""
    some = x[:: max(1, len(x) // WIDTH_ROWS)]
    return max(float(torch.cdist(some, anchors).square().mean()), 1e-12)


def likeness(x: Tensor, anchors: Tensor, width: float) -> Tensor:
    """``exp(−‖x − a‖² / width)`` of rows (n, dim) and anchors (m, dim): (n, m)."""
    squares = torch.addmm(anchors.square().sum(dim=1), x, anchors.T, alpha=-2)
    squares += x.square().sum(dim=1, keepdim=True)
    return squares.clamp_min_(0).mul_(-1 / width).exp_()

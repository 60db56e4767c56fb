"""What the kernel hashers share: signs of weighted likeness to anchors."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from gradsnap.coders.hashers.anchors import (
    check_anchors,
    drawn_anchors,
    kernel_width,
    likeness,
)
from gradsnap.coders.hashers.hasher import Hasher


class AnchoredHasher(Hasher):
    """Bit k of a vector is ``⟨φ(x) − mean, weights k⟩ > 0``, φ its likeness to anchors.

    φᵢ(x) = exp(−‖x − aᵢ‖² / width); anchors are rows drawn from those ``fit`` sees,
    and the width is their mean squared distance to the rows.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of everything random in ``fit``.
        anchors: how many; no more are taken than there are rows.
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
        seed: int = 0,
        anchors: int = 1000,
        ridge: float = 1e-3,
    ) -> None:
        super().__init__(dim, bits, seed=seed)
        check_anchors(anchors)
        self.num_anchors, self.ridge = anchors, ridge
        self.register_buffer("anchors", torch.zeros(anchors, dim))
        self.register_buffer("width", torch.ones(()))
        self.register_buffer("mean", torch.zeros(anchors))
        self.register_buffer("weights", torch.zeros(anchors, bits))

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain values."""
        return super().config() | {"anchors": self.num_anchors, "ridge": self.ridge}

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        found = drawn_anchors(x, self.num_anchors, self._generator())
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

"""Hashes by the side of hyperplanes: LSH, principal directions, and ITQ."""

from abc import abstractmethod
from typing import Unpack

import torch
from torch import Tensor

from gradsnap.coders.hashers.hasher import (
    Hasher,
    Seeded,
    check_bits_fit,
    signs_of,
)
from gradsnap.coders.rotations import principal_directions, procrustes


class LinearHasher(Hasher):
    """Bit k of a vector is ``⟨x − mean, direction k⟩ > 0``; a child finds directions.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: of everything random in ``fit``.
    """

    mean: Tensor
    directions: Tensor

    def __init__(self, dim: int, bits: int, *, seed: int = 0) -> None:
        super().__init__(dim, bits, seed=seed)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("directions", torch.zeros(dim, bits))

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        self.mean.copy_(x.mean(dim=0))
        self.directions.copy_(self._find_directions(x - self.mean))

    @abstractmethod
    def _find_directions(self, centred: Tensor) -> Tensor:
        """Directions (dim, bits) for centred rows (n, dim)."""

    def _signs(self, x: Tensor) -> Tensor:
        return (x - self.mean) @ self.directions > 0


class RandomHasher(LinearHasher):
    """LSH (Charikar 2002): random hyperplanes through the mean; learns nothing else."""

    def _find_directions(self, centred: Tensor) -> Tensor:
        drawn = torch.randn(self.dim, self.bits, generator=self._generator())
        return drawn.to(centred)


class PrincipalHasher(LinearHasher):
    """PCA hashing (Wang et al. 2010): the sides of the principal directions."""

    def __init__(self, dim: int, bits: int, *, seed: int = 0) -> None:
        check_bits_fit("PCA hashing", bits, dim)
        super().__init__(dim, bits, seed=seed)

    def _find_directions(self, centred: Tensor) -> Tensor:
        return principal_directions(centred, self.bits)


class ITQHasher(LinearHasher):
    """ITQ (Gong & Lazebnik 2011): principal directions, rotated towards the signs.

    Alternates B = sign(V R) and the rotation R that brings V nearest to B, so that
    ‖B − V R‖² never rises; V are the rows in their principal directions.

    Args:
        dim: length of a vector.
        bits: length of a hash; at most ``dim``.
        seed: of the first rotation.
        iterations: of signs and rotation.
    """

    def __init__(
        self, dim: int, bits: int, *, iterations: int = 50, **seeded: Unpack[Seeded]
    ) -> None:
        check_bits_fit("ITQ", bits, dim)
        super().__init__(dim, bits, **seeded)
        self.iterations = iterations

    def _find_directions(self, centred: Tensor) -> Tensor:
        directions = principal_directions(centred, self.bits)
        projected = centred @ directions  # (n, bits)
        drawn = torch.randn(self.bits, self.bits, generator=self._generator())
        rotation = procrustes(drawn.to(centred))
        for _ in range(self.iterations):
            rotation = rotate_to_signs(projected, rotation)
        return directions @ rotation


def rotate_to_signs(projected: Tensor, rotation: Tensor) -> Tensor:
    """The rotation that brings rows (n, bits) nearest to their signs under the last."""
    return procrustes(projected.T @ signs_of(projected @ rotation))

"""Spectral hashing: waves along the principal directions of a box."""

import math

import torch
from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.coders.rotations import principal_directions


class SpectralHasher(Hasher):
    """SH (Weiss, Torralba & Fergus 2008): signs of the smoothest waves of a box.

    For rows spread evenly over a box along their principal directions, the
    eigenfunctions of the graph Laplacian are ``sin(π/2 + k π (v − low) / range)``, the
    smoother the smaller ``k / range``; the ``bits`` smoothest give the bits.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        seed: not used, there is nothing random.
    """

    mean: Tensor
    directions: Tensor
    low: Tensor
    frequencies: Tensor
    axes: Tensor

    def __init__(self, dim: int, bits: int, *, seed: int = 0) -> None:
        super().__init__(dim, bits, seed=seed)
        self.axis_count = min(dim, bits)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("directions", torch.zeros(dim, self.axis_count))
        self.register_buffer("low", torch.zeros(self.axis_count))
        self.register_buffer("frequencies", torch.zeros(bits))
        self.register_buffer("axes", torch.zeros(bits, dtype=torch.int64))

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        self.mean.copy_(x.mean(dim=0))
        self.directions.copy_(principal_directions(x - self.mean, self.axis_count))
        projected = (x - self.mean) @ self.directions  # (n, axes)
        low, high = projected.aminmax(dim=0)
        extent = (high - low).clamp_min(1e-6 * float((high - low).max()) + 1e-12)
        modes = torch.arange(1, self.bits + 1, device=x.device)
        frequencies = modes[:, None] * math.pi / extent  # (modes, axes)
        order = frequencies.flatten().argsort(stable=True)[: self.bits]
        self.low.copy_(low)
        self.frequencies.copy_(frequencies.flatten()[order])
        self.axes.copy_(order % self.axis_count)

    def _signs(self, x: Tensor) -> Tensor:
        projected = (x - self.mean) @ self.directions - self.low
        waves = (projected[:, self.axes] * self.frequencies + math.pi / 2).sin()
        return waves > 0

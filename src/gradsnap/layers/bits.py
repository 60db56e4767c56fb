"""Layers that bring outputs to bits: a hash's relaxations, between outputs and loss.

None needs codewords; the hash itself is always the signs of the layer's input.
"""

import math

import torch
from torch import Tensor, nn

from gradsnap.coders.hashers.hasher import signs_of
from gradsnap.errors import InputError


class Tanh(nn.Module):
    """tanh(β y): outputs between −1 and 1, nearer to signs the larger β is.

    A schedule of β is the continuation of HashNet (``layer.first``, ``layer.ramp``).

    Args:
        sharpness: β; set it while training, as a schedule does.

    Example:
        >>> Tanh(sharpness=100.0)(torch.tensor([[-0.5, 0.5]]))
        tensor([[-1.,  1.]])
    """

    def __init__(self, sharpness: float = 1.0) -> None:
        super().__init__()
        if not 0 < sharpness < math.inf:
            raise InputError(f"sharpness must be positive and finite, got {sharpness}")
        self.sharpness = sharpness

    def forward(self, embeddings: Tensor) -> Tensor:
        """Values in (−1, 1), (n, bits), of embeddings (n, bits)."""
        return torch.tanh(self.sharpness * embeddings)

    def extra_repr(self) -> str:
        """Shown in ``print(layer)``."""
        return f"sharpness={self.sharpness}"


class StraightThroughSigns(nn.Module):
    """Forward, the signs −1 and 1 of the outputs; backward, the gradient as it is.

    Example:
        >>> StraightThroughSigns()(torch.tensor([[-0.3, 0.0, 2.0]]))
        tensor([[-1., -1.,  1.]])
    """

    def forward(self, embeddings: Tensor) -> Tensor:
        """Signs (n, bits) of embeddings (n, bits); 0 has the bit 0, so −1."""
        signs = signs_of(embeddings.detach())
        # y + (s − y) would round; a difference of equal numbers is exactly zero
        return signs + (embeddings - embeddings.detach())


class PiecewiseThreshold(nn.Module):
    """σ(y), set to 0 below ½ − ε and to 1 above ½ + ε, where it has no gradient.

    Lai et al., "Simultaneous feature learning and hash coding with deep neural
    networks", CVPR 2015: what is nearly a bit becomes one, so that the loss sees bits
    and moves only those outputs that are undecided.

    Args:
        width: ε, more than 0 and at most ½.

    Example:
        >>> layer = PiecewiseThreshold(width=0.25)
        >>> layer(torch.tensor([[-3.0, 0.0, 3.0]]))
        tensor([[0.0000, 0.5000, 1.0000]])
    """

    def __init__(self, width: float = 0.45) -> None:
        super().__init__()
        if not 0 < width <= 0.5:
            raise InputError(f"width must be more than 0 and at most 0.5, got {width}")
        self.width = width

    def forward(self, embeddings: Tensor) -> Tensor:
        """Values in [0, 1], (n, bits), of embeddings (n, bits)."""
        values = embeddings.sigmoid()
        decided = (values - 0.5).abs() > self.width
        return torch.where(decided, (values > 0.5).to(values.dtype), values)

    def extra_repr(self) -> str:
        """Shown in ``print(layer)``."""
        return f"width={self.width}"

"""Regularizers: terms of the loss that look at the embeddings and their codes."""

from collections.abc import Callable

from torch import Tensor, nn

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError


class NoRegularizer(nn.Module):
    """Nothing is added to the loss."""

    def __init__(self) -> None:  # without it, any option would be let through
        super().__init__()

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """Zero, for embeddings (n, dim)."""
        return embeddings.new_zeros(())


class QuantizationPenalty(nn.Module):
    """λ·mean‖y − q(y)‖²: the loss term of DQN and its kin (E + λQ).

    Until the quantizer is fitted there is nothing to add. Codewords that learn by
    gradient are pulled to their embeddings by the same term.

    Args:
        strength: λ.

    Example:
        >>> import torch, gradsnap as gs
        >>> x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(8, num_codebooks=2, codebook_size=16)
        >>> penalty = gs.QuantizationPenalty(strength=0.1)
        >>> bool(penalty(x, quantizer.fit(x)) > 0)
        True
    """

    def __init__(self, strength: float = 0.1) -> None:
        super().__init__()
        check_strength(strength)
        self.strength = strength

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, dim)."""
        if not isinstance(coder, Quantizer):
            raise InputError(
                "a quantization penalty needs a quantizer, whose codes stand for "
                f"vectors; got a {type(coder).__name__}"
            )
        if not coder.fitted:
            return embeddings.new_zeros(())
        offset: Tensor = embeddings - coder(embeddings).to(embeddings.dtype)
        return self.strength * offset.square().sum() / max(len(embeddings), 1)

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"strength={self.strength}"


class CornerPenalty(nn.Module):
    """λ·mean ||yₖ| − 1|ᵖ: how far outputs are from their signs, −1 and 1.

    The mean is over rows and bits, so that one λ serves hashes of any length.

    Args:
        strength: λ.
        power: p, at least 1; since ||y| − 1| = |y − sign y|, p = 2 is the squared
            quantization error of DPSH, and p = 3 the cubic term of GreedyHash.

    Example:
        >>> import torch
        >>> from gradsnap.coders import HASHERS
        >>> outputs = torch.tensor([[1.0, 3.0]])
        >>> CornerPenalty(strength=0.5, power=3.0)(outputs, HASHERS["sign"](2, 2))
        tensor(2.)
    """

    def __init__(self, strength: float = 0.1, power: float = 2.0) -> None:
        super().__init__()
        check_strength(strength)
        if not 1 <= power < float("inf"):
            raise InputError(f"power must be at least 1 and finite, got {power}")
        self.strength = strength
        self.power = power

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, bits)."""
        off = (embeddings.abs() - 1).abs()
        return self.strength * off.pow(self.power).sum() / max(off.numel(), 1)

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"strength={self.strength}, power={self.power}"


REGULARIZERS: dict[str, Callable[..., nn.Module]] = {
    "none": NoRegularizer,
    "quantization": QuantizationPenalty,
    "corners": CornerPenalty,
}
"""Every regularizer by its short name: ``regularizer(embeddings, coder)`` is a term."""


def check_strength(strength: float) -> None:
    """Refuses a strength that is negative or not finite."""
    if not 0 <= strength < float("inf"):
        raise InputError(f"strength must be zero or more and finite, got {strength}")

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


REGULARIZERS: dict[str, Callable[..., nn.Module]] = {
    "none": NoRegularizer,
    "quantization": QuantizationPenalty,
}
"""Every regularizer by its short name: ``regularizer(embeddings, coder)`` is a term."""


def check_strength(strength: float) -> None:
    """Refuses a strength that is negative or not finite."""
    if not 0 <= strength < float("inf"):
        raise InputError(f"strength must be zero or more and finite, got {strength}")

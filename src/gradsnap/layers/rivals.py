"""What else makes embeddings quantizable: the rivals of snapping, one call each.

Every entry of ``LAYERS`` builds a module from a quantizer; the module stands where
``GradientSnapping`` stands, between the embeddings and the loss.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradsnap.coders.quantizers import Quantizer
from gradsnap.coders.tables import sums_of_own
from gradsnap.errors import InputError
from gradsnap.layers.rules import OutputRegularization, PrintedRule, SnappingRule
from gradsnap.layers.snapping import GradientSnapping


class QuantizationPenalty(nn.Module):
    """λ·mean‖y − q(y)‖²: the loss term of DQN and its kin (E + λQ).

    Args:
        quantizer: fitted before the first call.
        strength: λ.

    Example:
        >>> import gradsnap as gs
        >>> x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(8, num_codebooks=2, codebook_size=16)
        >>> penalty = gs.QuantizationPenalty(quantizer.fit(x), strength=0.1)
        >>> bool(penalty(x) > 0)
        True
    """

    def __init__(self, quantizer: Quantizer, strength: float = 0.1) -> None:
        super().__init__()
        self.quantizer = quantizer
        self.strength = strength

    def forward(self, embeddings: Tensor) -> Tensor:
        """The scalar term of embeddings (n, dim); the codewords are constants."""
        offset: Tensor = embeddings - self.quantizer(embeddings).to(embeddings.dtype)
        return self.strength * offset.square().sum() / max(len(embeddings), 1)


class StraightThrough(nn.Module):
    """Forward, the reconstruction q(y); backward, the gradient as it is.

    Args:
        quantizer: fitted before the first call.
    """

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.quantizer = quantizer

    def forward(self, embeddings: Tensor) -> Tensor:
        """Reconstructions (n, dim) of embeddings (n, dim)."""
        reconstruction: Tensor = self.quantizer(embeddings).to(embeddings.dtype)
        offset = reconstruction - embeddings.detach()
        return embeddings + offset


class SoftAssignment(nn.Module):
    """Forward, the reconstruction q(y); backward, through a soft choice of codewords.

    The soft reconstruction is ``Σ_c softmax(−‖y − c‖²/τ) c`` over the candidates, with
    τ the temperature times each row's mean squared distance to them.

    Args:
        quantizer: fitted before the first call.
        neighbors: how many candidates take part.
        temperature: how soft the choice is, relative to the distances.
    """

    def __init__(
        self, quantizer: Quantizer, neighbors: int = 150, temperature: float = 0.1
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise InputError(f"temperature must be more than 0, got {temperature}")
        self.quantizer = quantizer
        self.neighbors = neighbors
        self.temperature = temperature

    def forward(self, embeddings: Tensor) -> Tensor:
        """Reconstructions (n, dim) of embeddings (n, dim)."""
        quantizer = self.quantizer
        every = quantizer.codebook_size**quantizer.num_codebooks
        distances, codes = quantizer.candidates(embeddings, min(self.neighbors, every))
        codes = codes.long()
        with torch.autocast(embeddings.device.type, enabled=False):
            y = embeddings.to(quantizer.dtype)
            products = sums_of_own(quantizer._inner_products(y), codes)  # ⟨y, c⟩
            fixed = distances + 2 * products.detach()  # ‖y‖² + ‖c‖², as a constant
            scale = self.temperature * distances.mean(dim=1, keepdim=True)
            logits = (2 * products - fixed) / scale.clamp_min(1e-30)
            soft = quantizer._mix(_weights(logits.softmax(dim=1), codes, quantizer))
            hard = quantizer._decode(codes[:, 0])
            return (soft + (hard - soft).detach()).to(embeddings.dtype)


def _weights(shares: Tensor, codes: Tensor, quantizer: Quantizer) -> Tensor:
    """Shares (n, T) of codes (n, T, M), gathered by codeword: (n, M, K)."""
    rows, _, num_codebooks = codes.shape
    weights = shares.new_zeros(rows, num_codebooks, quantizer.codebook_size)
    index = codes.transpose(1, 2)  # (n, M, T)
    return weights.scatter_add(2, index, shares[:, None].expand_as(index))


Build = Callable[[Quantizer], nn.Module]


def _plain(_: Quantizer) -> nn.Module:
    return nn.Identity()


def _snapping(quantizer: Quantizer) -> nn.Module:
    return GradientSnapping(quantizer, rule=SnappingRule())


def _printed(quantizer: Quantizer) -> nn.Module:
    return GradientSnapping(quantizer, rule=PrintedRule())


def _output_regularization(quantizer: Quantizer) -> nn.Module:
    return GradientSnapping(quantizer, neighbors=1, rule=OutputRegularization())


LAYERS: dict[str, Build] = {
    "plain": _plain,
    "snapping": _snapping,
    "printed": _printed,
    "output-regularization": _output_regularization,
    "straight-through": StraightThrough,
    "soft-assignment": SoftAssignment,
}
"""Every layer that can stand between embeddings and loss, with its defaults."""

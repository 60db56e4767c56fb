"""Rivals of snapping that stand where it stands: between embeddings and loss."""

import torch
from torch import Tensor, nn

from gradsnap.coders.quantizers import Quantizer
from gradsnap.coders.tables import sums_of_own
from gradsnap.errors import InputError


class StraightThrough(nn.Module):
    """Forward, the reconstruction q(y); backward, the gradient as it is.

    Codewords that learn by gradient get it too.

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


class StraightThroughCodes(StraightThrough):
    """The same output as items for queries that stay floats, as in search."""

    gives_items = True


class FixedCodes(nn.Module):
    """Items as their codes say, with no gradient to the embeddings they come from.

    What the loss says of items moves codewords that learn by gradient, and nothing
    else; queries are embeddings and learn as they do.

    Args:
        quantizer: fitted before the first call.
    """

    gives_items = True

    def __init__(self, quantizer: Quantizer) -> None:
        super().__init__()
        self.quantizer = quantizer

    def forward(self, embeddings: Tensor) -> Tensor:
        """Reconstructions (n, dim) of embeddings (n, dim)."""
        items: Tensor = self.quantizer(embeddings).to(embeddings.dtype)
        return items


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
            soft = quantizer._mix(_by_codeword(logits.softmax(dim=1), codes, quantizer))
            hard = quantizer._decode(codes[:, 0])
            return (soft + (hard - soft).detach()).to(embeddings.dtype)


def _by_codeword(shares: Tensor, codes: Tensor, quantizer: Quantizer) -> Tensor:
    """Shares (n, T) of codes (n, T, M), gathered by codeword: (n, M, K)."""
    rows, _, num_codebooks = codes.shape
    weights = shares.new_zeros(rows, num_codebooks, quantizer.codebook_size)
    index = codes.transpose(1, 2)  # (n, M, T)
    return weights.scatter_add(2, index, shares[:, None].expand_as(index))

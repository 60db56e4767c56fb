"""Items by a soft choice of codewords, block by block: the layers of PQN and DPQ."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
)
from gradsnap.errors import InputError

SOFT, HARD = 0.03, 0.3
"""Temperatures where nothing is said: a soft choice should be near the code, and one
that only carries a gradient should not be so sure that none is left."""


PRODUCTS = (ProductQuantizer, OptimizedProductQuantizer)
"""Quantizers with a codebook for each block of dimensions."""


class SoftCodes(nn.Module):
    """Forward, the mean codeword of each block, weighted by how near codewords are.

    In block m the codeword c_mk has the weight

        p_mk = softmax_k(−‖y_m − c_mk‖² / τ̄),    τ̄ = τ · mean_k ‖y_m − c_mk‖²

    and the item is made of Σₖ p_mk c_mk. With τ to 0 it is what the code says. The
    gradient reaches embeddings and, where they learn by gradient, codewords; τ̄ is a
    constant to it.

    Args:
        quantizer: of the product family, fitted before the first call.
        temperature: τ, how soft the choice is, relative to the distances.
    """

    gives_items = True

    def __init__(self, quantizer: Quantizer, temperature: float = SOFT) -> None:
        super().__init__()
        if temperature <= 0:
            raise InputError(f"temperature must be more than 0, got {temperature}")
        check_product(quantizer)
        self.quantizer = quantizer
        self.temperature = temperature

    def forward(self, embeddings: Tensor) -> Tensor:
        """Items (n, dim) of embeddings (n, dim)."""
        shares = assignments(self.quantizer, embeddings, self.temperature)
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.quantizer._mix(self.weigh(shares)).to(embeddings.dtype)

    def weigh(self, shares: Tensor) -> Tensor:
        """How much each codeword counts, (n, M, K), of soft shares (n, M, K)."""
        return shares


class HardCodes(SoftCodes):
    """Forward, what the code says; backward, as if the choice had been soft.

    The one codeword that is nearest counts 1, and the gradient of its weight is given
    to the soft weights p_mk, straight through.

    Args:
        quantizer: of the product family, fitted before the first call.
        temperature: τ of the soft weights.
    """

    def __init__(self, quantizer: Quantizer, temperature: float = HARD) -> None:
        super().__init__(quantizer, temperature)

    def weigh(self, shares: Tensor) -> Tensor:
        """One of each block (n, M, K), with the gradient of the soft shares."""
        nearest = functional.one_hot(shares.argmax(dim=2), shares.shape[2])
        return shares + (nearest.to(shares.dtype) - shares).detach()


def assignments(quantizer: Quantizer, rows: Tensor, temperature: float) -> Tensor:
    """Soft shares p (n, M, K) of the codewords in rows (n, dim); see ``SoftCodes``.

    All distances of a block have ``‖y_m‖²`` in common, which no share depends on: what
    is left of them is one product.
    """
    check_product(quantizer)
    with torch.autocast(rows.device.type, enabled=False):
        product, y = _product_of(quantizer, rows.to(quantizer.dtype))
        blocks, words = product.blocks(y), product.codebooks
        norms = words.square().sum(dim=2)[:, None]  # (M, 1, K)
        near = torch.baddbmm(
            -norms, blocks, words.transpose(1, 2), alpha=2
        )  # (M, n, K)
        shares = (near / _scale(blocks, near, temperature)).softmax(dim=2)
        return shares.transpose(0, 1)


@torch.no_grad()
def _scale(blocks: Tensor, near: Tensor, temperature: float) -> Tensor:
    """τ̄ (M, n, 1) of blocks (M, n, width) that are so near, 2⟨y, c⟩ − ‖c‖² (M, n, K).

    Never less than what rounding leaves of the distances.
    """
    squares = blocks.square().sum(dim=2, keepdim=True)
    scale = temperature * (squares - near.mean(dim=2, keepdim=True))
    return torch.maximum(scale, squares * torch.finfo(near.dtype).eps + 1e-30)


def _product_of(quantizer: Quantizer, x: Tensor) -> tuple[ProductQuantizer, Tensor]:
    """The product quantizer, and the rows (n, dim) as it is given them."""
    if isinstance(quantizer, OptimizedProductQuantizer):
        return quantizer.inner, x @ quantizer.rotation
    return cast(ProductQuantizer, quantizer), x


def check_product(quantizer: object) -> None:
    """Refuses what has no codebook for each block of dimensions."""
    if not isinstance(quantizer, PRODUCTS):
        raise InputError(
            "a soft choice in each block needs a quantizer of the product family, "
            f"coder.kind=pq or opq; got a {type(quantizer).__name__}"
        )

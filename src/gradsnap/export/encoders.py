"""Encoding as plain tensor operations, without chunks or compiled kernels."""

import torch
from torch import Tensor, nn

from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
)
from gradsnap.coders.quantizers.summed import pair_tables
from gradsnap.errors import InputError


class ProductEncoder(nn.Module):
    """The nearest codeword of each block.

    Args:
        quantizer: whose codes these are.
        rotation: applied before, (dim, dim), or None.
    """

    codebooks: Tensor
    half_norms: Tensor
    rotation: Tensor | None

    def __init__(self, quantizer: ProductQuantizer, rotation: Tensor | None) -> None:
        super().__init__()
        self.blocks = [
            len(part)
            for part in torch.arange(quantizer.dim).tensor_split(
                quantizer.num_codebooks
            )
        ]
        words = quantizer.codebooks.detach().clone()
        self.register_buffer("codebooks", words)
        self.register_buffer("half_norms", words.square().sum(dim=2) / 2)
        self.register_buffer("rotation", rotation)

    def forward(self, x: Tensor) -> Tensor:
        """Codes (n, M), int64, of x (n, dim)."""
        if self.rotation is not None:
            x = x @ self.rotation
        codes = []
        for m, part in enumerate(x.split(self.blocks, dim=1)):
            words = self.codebooks[m, :, : self.blocks[m]]
            codes.append((self.half_norms[m] - part @ words.T).argmin(dim=1))
        return torch.stack(codes, dim=1)


class BeamEncoder(nn.Module):
    """The residual quantizer's beam search, codebook by codebook.

    Args:
        quantizer: whose codes these are.
    """

    codebooks: Tensor
    norms: Tensor
    pairs: Tensor

    def __init__(self, quantizer: ResidualQuantizer) -> None:
        super().__init__()
        words = quantizer.codebooks.detach().clone()
        self.beam = quantizer.beam_size
        self.size = quantizer.codebook_size
        self.register_buffer("codebooks", words)
        self.register_buffer("norms", words.square().sum(dim=2))
        self.register_buffer("pairs", pair_tables(words))

    def forward(self, x: Tensor) -> Tensor:
        """Codes (n, M), int64, of x (n, dim)."""
        size = self.size
        first = self.norms[0] - 2 * (x @ self.codebooks[0].T)  # (n, K)
        scores, chosen = first.topk(min(self.beam, size), dim=1, largest=False)
        codes = [chosen]
        width = min(self.beam, size)
        for m in range(1, self.codebooks.shape[0]):
            unary = self.norms[m] - 2 * (x @ self.codebooks[m].T)
            added = scores[..., None] + unary[:, None]  # (n, b, K)
            for j, words in enumerate(codes):
                added = added + self.pairs[m][words + j * size]
            width = min(self.beam, width * size)
            scores, best = added.flatten(1).topk(width, dim=1, largest=False)
            state = best.div(size, rounding_mode="floor")
            codes = [words.gather(1, state) for words in codes]
            codes.append(best - state * size)
        return torch.stack([words[:, 0] for words in codes], dim=1)


def encoder_of(quantizer: Quantizer) -> nn.Module:
    """A module that gives the quantizer's codes, made of plain operations.

    Raises:
        InputError: the quantizer searches codes by local search, which no graph holds.
    """
    if isinstance(quantizer, OptimizedProductQuantizer):
        return ProductEncoder(quantizer.inner, quantizer.rotation.detach().clone())
    if isinstance(quantizer, ProductQuantizer):
        return ProductEncoder(quantizer, None)
    if type(quantizer) is ResidualQuantizer:
        return BeamEncoder(quantizer)
    raise InputError(
        f"the codes of a {type(quantizer).__name__} are found by local search, which "
        "cannot be written as a graph; known: ProductQuantizer, "
        "OptimizedProductQuantizer, ResidualQuantizer"
    )

"""Encoding as plain tensor operations, without chunks or compiled kernels."""

import functools

import torch
from torch import Tensor, nn

from gradsnap.coders.coder import Coder
from gradsnap.coders.hashers import SignHasher, WeightedHasher
from gradsnap.coders.hashers.linear import LinearHasher
from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    ResidualQuantizer,
)
from gradsnap.coders.quantizers.codeword_tables import pair_tables
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


class SignEncoder(nn.Module):
    """The sides of hyperplanes as bits, eight to an integer, the first the lowest.

    Args:
        mean: where the hyperplanes meet, (dim,).
        directions: their normals, (dim, bits).
    """

    mean: Tensor
    directions: Tensor
    places: Tensor

    def __init__(self, mean: Tensor, directions: Tensor) -> None:
        super().__init__()
        bit = torch.arange(directions.shape[1])
        places = torch.zeros(len(bit), -(-len(bit) // 8))
        places[bit, bit // 8] = 2.0 ** (bit % 8)
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("directions", directions.detach().clone())
        self.register_buffer("places", places)

    def forward(self, x: Tensor) -> Tensor:
        """Codes (n, ⌈bits / 8⌉), int64, of x (n, dim)."""
        signs = (x - self.mean) @ self.directions > 0
        return (signs.float() @ self.places).long()  # sums of bytes, exact in floats


@functools.singledispatch
def encoder_of(coder: Coder) -> nn.Module:
    """A module that gives the coder's codes, made of plain operations.

    Raises:
        InputError: the coder's way to its codes is not one that a graph holds.
    """
    known = [kind.__name__ for kind in encoder_of.registry if kind is not object]
    raise InputError(
        f"the codes of a {type(coder).__name__} cannot be written as a graph; known: "
        f"{', '.join(known)}"
    )


@encoder_of.register
def _(coder: ProductQuantizer) -> nn.Module:
    return ProductEncoder(coder, None)


@encoder_of.register
def _(coder: OptimizedProductQuantizer) -> nn.Module:
    return ProductEncoder(coder.inner, coder.rotation.detach().clone())


@encoder_of.register
def _(coder: ResidualQuantizer) -> nn.Module:
    return BeamEncoder(coder)


@encoder_of.register
def _(coder: LinearHasher) -> nn.Module:
    return SignEncoder(coder.mean, coder.directions)


@encoder_of.register
def _(coder: SignHasher) -> nn.Module:
    return SignEncoder(torch.zeros(coder.dim), torch.eye(coder.dim))


@encoder_of.register
def _(coder: WeightedHasher) -> nn.Module:
    return encoder_of(coder.inner)

"""What every network here is: blocks that make a trunk, and the embedding layer."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError


class Network(nn.Module, ABC):
    """A trunk of blocks, then the layer ``feat`` whose output is the embedding.

    A child builds its layers and says what ``trunk`` computes and which ``blocks`` it
    is made of; ``freeze``, ``parameter_groups`` and caches of trunk outputs rest on it.
    A block without a trainable parameter stays in evaluation mode, also while the rest
    trains: its batch statistics and dropout are frozen with its weights, so that the
    output of a frozen trunk may be computed once and kept.
    """

    preprocess: nn.Module
    """From images as they are loaded to what the network takes."""
    feat: nn.Module
    """The last layer, (n, trunk_dim) to (n, dim)."""
    dim: int
    """Length of the embedding."""
    fresh: tuple[str, ...] = ()
    """Layers that stayed fresh when weights were loaded into the others."""

    @abstractmethod
    def trunk(self, images: Tensor) -> Tensor:
        """All but the last layer: (n, trunk_dim) of preprocessed images."""

    @abstractmethod
    def blocks(self) -> list[nn.Module]:
        """The parts of the trunk that have parameters, from the input on."""

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings (n, dim) of preprocessed images."""
        embeddings: Tensor = self.feat(self.trunk(images))
        return embeddings

    def train(self, mode: bool = True) -> "Network":
        """As of any module, but frozen blocks stay in evaluation mode."""
        super().train(mode)
        blocks = self.blocks()
        frozen = [block for block in blocks if not _trains(block)]
        for block in frozen:
            block.eval()
        if blocks and len(frozen) == len(blocks):
            for part in self.children():
                part.train(mode and part is self.feat)
        return self


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Fresh weights depend on the seed alone; the global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone
        yield


def embedding_layer(trunk_dim: int, dim: int) -> nn.Linear:
    """The layer ``feat`` from (n, trunk_dim) to (n, dim)."""
    if dim < 1:
        raise InputError(f"dim must be at least 1, got {dim}")
    return nn.Linear(trunk_dim, dim)


def _trains(part: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in part.parameters())

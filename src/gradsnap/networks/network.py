"""What every network is, which of its parts train, and weights in files of others."""

import contextlib
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gradsnap.errors import FileFormatError, InputError

_log = logging.getLogger(__name__)


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
        # What stands between the blocks, such as dropout, is then frozen with them.
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


def freeze(network: Network, last_blocks: int = 0) -> Network:
    """Freezes the trunk but for its last blocks; the embedding layer always trains.

    With 0 the whole trunk is frozen, and ``network.trunk(images)`` may be computed
    once and kept; with ``len(network.blocks())`` the whole network trains again.

    Args:
        network: changed in place, and returned.
        last_blocks: how many blocks, counted from the embedding layer, still train.
    """
    _check_network(network)
    blocks = network.blocks()
    if not 0 <= last_blocks <= len(blocks):
        raise InputError(
            f"last_blocks must be 0 to {len(blocks)}, the blocks of "
            f"{type(network).__name__}, got {last_blocks}"
        )
    network.requires_grad_(last_blocks == len(blocks))
    for part in [*blocks[len(blocks) - last_blocks :], network.feat]:
        part.requires_grad_(True)
    return network.train(network.training)


def parameter_groups(
    network: Network,
    rate: float,
    trunk_rate: float | None = None,
    decay: float = 1.0,
    fresh: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Trainable parameters with a learning rate for each depth, for an optimizer.

    Args:
        network: its frozen parameters are left out.
        rate: for the embedding layer and whatever else starts fresh.
        trunk_rate: for the last block of the trunk; ``rate`` if not given.
        decay: each block before it learns ``decay`` times as fast as the next.
        fresh: names of layers that were not loaded, as ``load_torchvision_weights``
            returns them; they take ``rate``.

    Returns:
        Groups of ``params`` and their ``lr``, as the optimizers of torch take them.
    """
    trunk_rate = rate if trunk_rate is None else trunk_rate
    _check_network(network)
    _check_rates(rate, trunk_rate, decay)
    rates = {id(p): rate for p in network.parameters()}
    blocks = network.blocks()
    for depth, block in enumerate(reversed(blocks)):
        rates |= {id(p): trunk_rate * decay**depth for p in block.parameters()}
    prefixes = tuple(f"{name}." for name in fresh)
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            is_fresh = name.startswith(prefixes)
            own = rate if is_fresh else rates[id(parameter)]
            groups.setdefault(own, []).append(parameter)
    return [{"params": some, "lr": own} for own, some in groups.items()]


def _check_network(network: Network) -> None:
    if not isinstance(network, Network):
        raise InputError(
            f"expected a gradsnap Network, got {type(network).__name__}; "
            f"Embedder(module, dim) makes one of any module"
        )


def _check_rates(rate: float, trunk_rate: float, decay: float) -> None:
    for name, value in (("rate", rate), ("trunk_rate", trunk_rate)):
        if not 0 <= value < float("inf"):
            raise InputError(f"{name} must be zero or more and finite, got {value}")
    if not 0 < decay <= 1:
        raise InputError(f"decay must lie in (0, 1], got {decay}")


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors by name in a ``.pth`` or ``.safetensors`` file, or at a URL."""
    try:
        found = _read(path)
    except OSError as error:  # also of URLs
        raise InputError(f"there are no weights at {path}: {error}") from error
    except Exception as error:  # a damaged pickle can raise any
        first_line = str(error).partition("\n")[0]
        raise FileFormatError(
            f"{path} is no readable file of weights: {first_line}"
        ) from error
    if not isinstance(found, dict) or not all(
        isinstance(value, Tensor) for value in found.values()
    ):
        raise FileFormatError(
            f"{path} holds no tensors by name; save the state_dict of the network alone"
        )
    return found


def _read(path: str | os.PathLike[str]) -> object:
    if "://" in str(path):
        return torch.hub.load_state_dict_from_url(
            str(path), map_location="cpu", progress=False, weights_only=True
        )
    if Path(path).suffix == ".safetensors":
        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def load_fitting(network: nn.Module, weights: dict[str, Tensor]) -> tuple[str, ...]:
    """Loads the tensors whose name and shape fit.

    Returns:
        Names of the layers that stayed fresh, in order; also logged, for debugging.
    """
    own = network.state_dict()
    fitting = {
        name: value
        for name, value in weights.items()
        if name in own and own[name].shape == value.shape
    }
    network.load_state_dict(fitting, strict=False)
    missing = [name for name in own if name not in fitting]
    fresh = tuple(dict.fromkeys(name.rpartition(".")[0] for name in missing))
    _log.debug("layers that stayed fresh: %s", ", ".join(fresh) or "none")
    return fresh

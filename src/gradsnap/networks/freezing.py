"""Which parts of a network train, and how fast."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from gradsnap.errors import InputError
from gradsnap.networks.base import Network


def freeze(network: Network, last_blocks: int = 0) -> Network:
    """Freezes the trunk but for its last blocks; the embedding layer always trains.

    With 0 the whole trunk is frozen, and ``network.trunk(images)`` may be computed
    once and kept; with ``len(network.blocks())`` the whole network trains again.

    Args:
        network: changed in place, and returned.
        last_blocks: how many blocks, counted from the embedding layer, still train.
    """
    blocks = _checked(network).blocks()
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
    _check_rates(rate, trunk_rate, decay)
    rates = {id(p): rate for p in _checked(network).parameters()}
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


def _checked(network: Network) -> Network:
    if not isinstance(network, Network):
        raise InputError(
            f"expected a gradsnap Network, got {type(network).__name__}; "
            f"Embedder(module, dim) makes one of any module"
        )
    return network


def _check_rates(rate: float, trunk_rate: float, decay: float) -> None:
    for name, value in (("rate", rate), ("trunk_rate", trunk_rate)):
        if not 0 <= value < float("inf"):
            raise InputError(f"{name} must be zero or more and finite, got {value}")
    if not 0 < decay <= 1:
        raise InputError(f"decay must lie in (0, 1], got {decay}")

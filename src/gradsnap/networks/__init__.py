"""Networks whose output is the embedding."""

import inspect
from collections.abc import Callable

import torch

from gradsnap.errors import InputError
from gradsnap.networks.alexnet import AlexNet, alexnet
from gradsnap.networks.base import Network
from gradsnap.networks.efficientnet_lite import EfficientNetLite0, efficientnet_lite0
from gradsnap.networks.elsewhere import LIBRARIES, from_import_path, from_library
from gradsnap.networks.embedder import Embedder
from gradsnap.networks.freezing import freeze, parameter_groups
from gradsnap.networks.gist import Gist
from gradsnap.networks.head import Head
from gradsnap.networks.mlp import MLP
from gradsnap.networks.preprocessing import Preprocess
from gradsnap.networks.small import SmallConvNet

NETWORKS: dict[str, Callable[..., Network]] = {
    "alexnet": alexnet,
    "efficientnet-lite0": efficientnet_lite0,
    "small": SmallConvNet,
    "mlp": MLP,
    "head": Head,
}
"""Every network by its short name; being in here is being tested."""


def build_network(name: str, seed: int = 0, **options: object) -> Network:
    """The network of that name; its fresh weights depend on the seed alone.

    Args:
        name: a key of ``NETWORKS``, ``timm/NAME`` or ``torchvision/NAME``, or the
            import path ``package.module:function`` of what returns any module.
        seed: of the fresh weights; the global random state is left as it was.
        options: the network's own, such as ``dim``.

    Example:
        >>> build_network("head", input_dim=20, dim=8).feat
        Linear(in_features=20, out_features=8, bias=True)
    """
    builder, given = _builder_and_name(name)
    _check_options(name, builder, given, options)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone
        return builder(*given, **options)


def network_builder(name: str) -> Callable[..., Network]:
    """What builds the network of that name, to ask for its options."""
    return _builder_and_name(name)[0]


def _builder_and_name(name: str) -> tuple[Callable[..., Network], tuple[str, ...]]:
    """What builds the network, and what it takes before the options."""
    if name in NETWORKS:
        return NETWORKS[name], ()
    if ":" in name:
        return from_import_path, (name,)
    if name.partition("/")[0] in LIBRARIES:
        return from_library, (name,)
    raise InputError(
        f"unknown network {name!r}; choose one of {', '.join(NETWORKS)}, timm/NAME, "
        f"torchvision/NAME, or an import path package.module:function"
    )


def _check_options(
    name: str,
    builder: Callable[..., Network],
    given: tuple[str, ...],
    options: dict[str, object],
) -> None:
    signature = inspect.signature(builder)
    try:
        signature.bind(*given, **options)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[len(given) :])
        raise InputError(
            f"cannot build the network {name!r}: {error}; its options are {known}"
        ) from error


__all__ = [
    "MLP",
    "NETWORKS",
    "AlexNet",
    "EfficientNetLite0",
    "Embedder",
    "Gist",
    "Head",
    "Network",
    "Preprocess",
    "SmallConvNet",
    "build_network",
    "freeze",
    "network_builder",
    "parameter_groups",
]

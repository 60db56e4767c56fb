"""Networks whose output is the embedding."""

import functools
from collections.abc import Callable, Mapping

from gradsnap.errors import InputError
from gradsnap.networks.alexnet import AlexNet, alexnet
from gradsnap.networks.efficientnet_lite import EfficientNetLite0, efficientnet_lite0
from gradsnap.networks.embedder import (
    LIBRARIES,
    Embedder,
    import_network,
    library_network,
)
from gradsnap.networks.embedding_layers import EMBEDDING_LAYERS, with_feat
from gradsnap.networks.gist import Gist
from gradsnap.networks.head import Head
from gradsnap.networks.mlp import MLP
from gradsnap.networks.network import Network, freeze, parameter_groups, seeded
from gradsnap.networks.preprocessing import Preprocess
from gradsnap.networks.principal import start_principal
from gradsnap.networks.small import SmallConvNet
from gradsnap.registry import build, chosen, options_of

NETWORKS: dict[str, Callable[..., Network]] = {
    "alexnet": alexnet,
    "efficientnet-lite0": efficientnet_lite0,
    "small": SmallConvNet,
    "mlp": MLP,
    "head": Head,
}
"""Every network by its short name; being in here is being tested."""


def build_network(
    name: str, /, seed: int = 0, *, feat: str = "linear", **options: object
) -> Network:
    """The network of that name; its fresh weights depend on the seed alone.

    Args:
        name: a key of ``NETWORKS``, ``timm/NAME`` or ``torchvision/NAME``; for any
            other module see ``import_network``.
        seed: of the fresh weights; the global random state is left as it was.
        feat: its last layer, a key of ``EMBEDDING_LAYERS``.
        options: the network's own, such as ``dim``.

    Raises:
        InputError: the name, an option or the value of an option cannot be used.

    Example:
        >>> build_network("head", input_dim=20, dim=8).feat
        Linear(in_features=20, out_features=8, bias=True)
    """
    return _build(name, seed, {"feat": feat, **options})


def untrained_network(name: str, options: Mapping[str, object]) -> Network:
    """The network of a name and options that were read from a file, to be filled.

    Whoever wrote the file chooses among the networks that there are, and no more: it
    loads no weights, downloads nothing and imports nothing but timm or torchvision.

    Args:
        name: as of ``build_network``.
        options: as of ``build_network``; ``weights`` are left out.
    """
    own = dict(options)
    if "weights" in options_of(network_builder(name)):
        own["weights"] = None
    return _build(name, 0, own)


def network_builder(name: str) -> Callable[..., Network]:
    """What builds the network of that name, to ask for its options."""
    if name.startswith(tuple(f"{library}/" for library in LIBRARIES)):
        return functools.partial(library_network, name)
    if ":" in name:
        raise InputError(
            f"the network {name!r} is not built: networks from an import path run "
            f"code: name it yourself with --network-from package.module:function "
            f"(never taken from a model folder)"
        )
    also = [f"{library}/NAME" for library in LIBRARIES]
    return chosen(NETWORKS, name, "network", also)


def _build(name: str, seed: int, options: Mapping[str, object]) -> Network:
    own = dict(options)
    feat = str(own.pop("feat", "linear"))
    with seeded(seed):
        built = build({name: network_builder(name)}, name, "network", {}, own)
        return with_feat(built, feat)


__all__ = [
    "EMBEDDING_LAYERS",
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
    "import_network",
    "network_builder",
    "parameter_groups",
    "start_principal",
    "untrained_network",
]

"""The layers ``feat`` a network may end with: from the trunk's output to embeddings."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.networks.network import Network, embedding_layer
from gradsnap.registry import chosen

SLICE = 50
"""Features that one bit is encoded from, as in the paper of divide-and-encode."""


def standardized_layer(trunk_dim: int, dim: int) -> nn.Module:
    """A linear layer, each output brought to mean 0 and variance 1 over the batch.

    Half of the outputs are then positive, so that bits by signs are balanced. As in
    OrthoHash (Hoe et al. 2021), the mean and the variance are learned after that.
    """
    return nn.Sequential(nn.Linear(trunk_dim, dim, bias=False), nn.BatchNorm1d(dim))


class DivideAndEncode(nn.Module):
    """Features in ``dim`` slices of 50, each slice encoded to one output.

    Lai et al., "Simultaneous feature learning and hash coding with deep neural
    networks", CVPR 2015: no feature takes part in two bits, which keeps bits from
    saying the same. The paper's features are 50·bits maps of a last
    convolution; here a linear layer and a ReLU make them, for any trunk.

    Args:
        trunk_dim: length of the trunk's output.
        dim: length of the embedding.
    """

    def __init__(self, trunk_dim: int, dim: int) -> None:
        super().__init__()
        self.features = embedding_layer(trunk_dim, dim * SLICE)
        spread = 1 / math.sqrt(SLICE)
        self.weight = nn.Parameter(torch.empty(dim, SLICE).uniform_(-spread, spread))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, outputs: Tensor) -> Tensor:
        """Embeddings (n, dim) of the trunk's outputs (n, trunk_dim)."""
        slices = self.features(outputs).relu().unflatten(1, self.weight.shape)
        encoded: Tensor = (slices * self.weight).sum(dim=2) + self.bias  # (n, dim)
        return encoded


EMBEDDING_LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "linear": embedding_layer,
    "standardized": standardized_layer,
    "divide-and-encode": DivideAndEncode,
}
"""Every layer ``feat`` by its short name, of trunk_dim and dim."""


def with_feat(network: Network, feat: str) -> Network:
    """The network with the layer ``feat`` of that name, fresh; changed in place.

    Args:
        network: as it was built, with a linear layer.
        feat: a key of ``EMBEDDING_LAYERS``.

    Example:
        >>> from gradsnap.networks import Head
        >>> with_feat(Head(input_dim=20, dim=8), "standardized").feat[0]
        Linear(in_features=20, out_features=8, bias=False)
    """
    build = chosen(EMBEDDING_LAYERS, feat, "embedding layer")
    if build is embedding_layer:
        return network
    if not isinstance(network.feat, nn.Linear):
        raise InputError(f"{type(network).__name__} ends with no linear layer to swap")
    network.feat = build(network.feat.in_features, network.dim)
    return network

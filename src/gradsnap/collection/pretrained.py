"""A model for any photos, without training: ImageNet's network, axes of the photos."""

from typing import Any

import torch
from torch import Tensor, nn

from gradsnap.coders import CODERS, Coder, Quantizer
from gradsnap.coders.quantizers.quantizer import size_of_codebooks
from gradsnap.coders.rotations import eigenvectors, orient
from gradsnap.data import Dataset
from gradsnap.inference.embedding import EmbeddingStream
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.inference.trunk import Trunk
from gradsnap.networks import build_network
from gradsnap.registry import chosen

NETWORK = "efficientnet-lite0"
SIDE = 224
DIM = 128
"""Axes that are kept of the network's 1280 outputs."""
BITS = 128
SAMPLE = 20_000
"""Photos that show where the axes lie, at most."""


def pretrained_model(
    dataset: Dataset, coder: str = "pq", bits: int = BITS, workers: int = 0
) -> tuple[Model, EmbeddingStream]:
    """A model whose axes are those of the photos, and their embeddings as a stream.

    The outputs of EfficientNet-Lite0 are brought to length 1, and of their principal
    axes the first 128 are kept: y = Uᵀ(x − mean). Squared distances are then those of
    unit vectors, 0 for the same photo and at most 4. The coder is not fitted yet.

    Args:
        dataset: images of any size, one or more.
        coder: a key of ``CODERS``.
        bits: length of a code.
        workers: processes that decode.

    Raises:
        InputError: the package with the weights is not installed.
    """
    options: dict[str, Any] = {"dim": DIM, "side": SIDE, "normalization": "length"}
    network = build_network(NETWORK, **options)
    network.requires_grad_(False).eval()
    photos = dataset.reading(side=SIDE, channels=3)
    indices, rows = EmbeddingStream(photos, Trunk(network), workers).sample(SAMPLE)
    if isinstance(network.feat, nn.Linear):
        set_axes(network.feat, rows)
    model = Model(
        network,
        new_coder(coder, DIM, bits, len(rows)),
        NetworkSpec(NETWORK, options, SIDE, 3),
        {"data": dataset.name, "items": len(dataset), "method": "pretrained"},
    )
    stream = model.stream(photos, workers)
    stream.remember(indices, network.feat(rows))
    return model, stream


def new_coder(kind: str, dim: int, bits: int, rows: int) -> Coder:
    """An empty coder of so many bits, its codebooks no larger than rows can fill."""
    found = chosen(CODERS, kind, "coder")
    if issubclass(found, Quantizer):
        return found.of_bits(dim, bits, size_of_codebooks(bits, rows))
    return found.of_bits(dim, bits)


@torch.no_grad()
def set_axes(layer: nn.Linear, rows: Tensor) -> None:
    """Makes the layer y = Uᵀ(x − mean), U the first principal axes of rows (n, in).

    Few rows have fewer axes than the layer has outputs; the rest are then random ones,
    at right angles to them, the same on every machine.
    """
    outputs, inputs = layer.weight.shape
    mean = rows.double().mean(dim=0)
    centred = rows.double() - mean
    _, vectors = eigenvectors(centred.T @ centred)
    axes = orient(vectors.flip(1)[:, : min(outputs, max(len(rows) - 1, 0))])
    generator = torch.Generator().manual_seed(0)
    others = torch.randn(inputs, outputs, generator=generator, dtype=torch.float64)
    whole, _ = torch.linalg.qr(torch.cat([axes, others], dim=1)[:, :outputs])
    whole[:, : axes.shape[1]] = axes  # not turned round
    layer.weight.copy_(whole.T)
    if layer.bias is not None:
        layer.bias.copy_(-(whole.T @ mean))

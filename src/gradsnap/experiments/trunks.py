"""What all contenders of an experiment share: the network below the embedding.

A trunk that is fixed gives vectors once, which are kept in a file; the contenders learn
a head on them. The others are trained from images by every contender anew.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradsnap.data import Dataset
from gradsnap.errors import InputError
from gradsnap.inference.embedding import embed
from gradsnap.inference.trunk import Trunk as WithoutHead
from gradsnap.networks import Gist, build_network

Tables = dict[str, dict[str, Any]]
Vectors = Callable[[Dataset, str | None], Tensor]
"""From items, and the path of weights, to vectors (n, dim)."""

SIDE = 128
"""Pixels of a side that the frozen network sees."""
ALEXNET_SIDE = 96
AT_ONCE = 2048
"""Images whose pixels are read at once."""


@dataclass(frozen=True)
class Trunk:
    """A network below the embedding, and how it is trained.

    Args:
        summary: one line for the card.
        vectors: fixed vectors of the items: what a head learns from, where the trunk is
            fixed, and what coders that train nothing are fitted to.
        settings: of every run, by section.
        trained: whether the trunk itself learns, from images.
        rates: learning rates to choose from.
        dim: length of an embedding, where the coder does not fix it.
    """

    summary: str
    vectors: Vectors
    settings: Tables
    trained: bool = False
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    dim: int = 64
    needs_weights: bool = field(default=False, kw_only=True)

    @property
    def usual_rate(self) -> float:
        """The middle of the rates, where none is chosen."""
        return self.rates[(len(self.rates) - 1) // 2]

    def tables(self, weights: str | None) -> Tables:
        """The settings of every run, with the path of the weights in their place.

        Raises:
            InputError: there is no such path, and the trunk needs one.
        """
        if not (self.needs_weights and self.trained):
            return self.settings
        options = self.settings["network"]["options"] | {"weights": _needed(weights)}
        return self.settings | {
            "network": self.settings["network"] | {"options": options}
        }


def given_vectors(dataset: Dataset, weights: str | None) -> Tensor:
    """The vectors (n, dim) of a file as they are."""
    if dataset.holds_images:
        raise InputError(f"{dataset.name} holds images: choose another --trunk")
    return dataset.items.batch(torch.arange(len(dataset)))


def pixels(dataset: Dataset, weights: str | None) -> Tensor:
    """All pixels, from 0 to 1 (n, channels · height · width)."""
    _check_images(dataset)
    parts = torch.arange(len(dataset)).split(AT_ONCE)
    return torch.cat([dataset.items.batch(one).flatten(1) / 255 for one in parts])


def frozen_outputs(dataset: Dataset, weights: str | None) -> Tensor:
    """Outputs (n, 1280) of EfficientNet-Lite0, trained on ImageNet."""
    _check_images(dataset)
    network = build_network("efficientnet-lite0", side=SIDE)
    return embed(WithoutHead(network), _read_at(dataset, SIDE))


def conv5(dataset: Dataset, weights: str | None) -> Tensor:
    """AlexNet's last convolution, averaged over places, of length 1 (n, 256)."""
    _check_images(dataset)
    network = build_network(
        "alexnet", side=ALEXNET_SIDE, head=(), dim=1, weights=_needed(weights)
    )
    averaged = embed(_Averaged(network), _read_at(dataset, ALEXNET_SIDE))
    return torch.nn.functional.normalize(averaged)


class _Averaged(WithoutHead):
    """A trunk whose maps are averaged over places."""

    def forward(self, ready: Tensor) -> Tensor:
        """(n, 256) of preprocessed images (n, 3, side, side)."""
        maps: Tensor = super().forward(ready).unflatten(1, (256, -1))  # (n, 256, 36)
        return maps.mean(dim=2)


def gist(dataset: Dataset, weights: str | None) -> Tensor:
    """GIST descriptors (n, 512)."""
    _check_images(dataset)
    return embed(Gist(), _read_at(dataset, 32), engine="torch")


def _run(steps: int, **more: Any) -> dict[str, Any]:
    return {
        "steps": steps,
        "monitor_every": 20,
        "validate_every": max(steps // 4, 1),
        "checkpoint_every": steps,
        "score_queries": False,  # scored by the experiment, with precision
        **more,
    }


TRUNKS: dict[str, Trunk] = {
    "vectors": Trunk(
        "a linear head on the vectors of the file",
        given_vectors,
        {"run": _run(600)},
    ),
    "pixels": Trunk(
        "a head with one hidden layer of 128 on pixels",
        pixels,
        {"network": {"options": {"hidden": [128]}}, "run": _run(400)},
        dim=32,
    ),
    "frozen": Trunk(
        f"a linear head on the outputs of a frozen EfficientNet-Lite0 at {SIDE} pixels",
        frozen_outputs,
        {"run": _run(600)},
    ),
    "small": Trunk(
        "five convolutions from scratch, trained end to end",
        pixels,
        {"network": {"name": "small"}, "run": _run(400)},
        trained=True,
        rates=(1e-3, 3e-3, 1e-2),
    ),
    "alexnet": Trunk(
        f"AlexNet end to end at {ALEXNET_SIDE} pixels, conv1 to conv5 from ImageNet",
        conv5,
        {
            "data": {"augment": ["projective", "flip"]},
            "network": {
                "name": "alexnet",
                "options": {"side": ALEXNET_SIDE, "head": [512]},
            },
            "optimizer": {"trunk_rate": 1e-4, "layer_decay": 0.9},
            "run": _run(2000, batch_size=64, checkpoint_every=100),
        },
        trained=True,
        rates=(3e-4, 1e-3),
        dim=192,
        needs_weights=True,
    ),
}
"""Every trunk by its short name."""


def default_trunk(dataset: Dataset) -> str:
    """The trunk of data where none is named, by what the items are."""
    if not dataset.holds_images:
        return "vectors"
    side = max(dataset.item_shape[1:])
    if side <= 8:
        return "pixels"
    return "small" if dataset.item_shape[0] == 1 and side <= 32 else "frozen"


def _read_at(dataset: Dataset, side: int) -> Dataset:
    """Colour images; those of files read at a side, small ones resized by networks."""
    small = max(dataset.item_shape[1:]) <= 64
    return dataset.reading(side=None if small else side, channels=3)


def _check_images(dataset: Dataset) -> None:
    if not dataset.holds_images:
        raise InputError(f"{dataset.name} holds vectors: choose --trunk vectors")


def _needed(weights: str | None) -> str:
    if weights is None:
        raise InputError(
            "AlexNet needs its convolutions trained on ImageNet: name torchvision's "
            "file with --weights alexnet.pth"
        )
    return weights

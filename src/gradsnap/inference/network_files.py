"""The network of a model folder: what a file says of it, built and filled.

Whoever wrote the file may say anything: sizes are compared before memory is taken, and
only networks of the registry are built.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradsnap.errors import FileFormatError, GradsnapError, InputError
from gradsnap.networks import Network, import_network, untrained_network

LARGEST = 2**14
"""Pixels of a side that a folder may ask images to be read at."""


@dataclass(frozen=True)
class NetworkSpec:
    """What a folder says of its network, so that it can be built again and filled."""

    name: str | None
    """Of the registry; None for one from an import path, which the user must name."""
    options: dict[str, Any]
    side: int | None = None
    """Pixels that images are read at."""
    channels: int | None = None


def spec_of(words: dict[str, str], file: Path) -> NetworkSpec:
    """What the words of a file of weights say of its network."""
    try:
        spec = NetworkSpec(**json.loads(words["network"]))
        known = isinstance(spec.name, str | None) and isinstance(spec.options, dict)
        if not known or not all(map(_is_size, (spec.side, spec.channels))):
            raise TypeError(f"a network called {spec}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{file} is damaged: {error!r}") from error
    return spec


def _is_size(value: object) -> bool:
    """Whether it is a number of pixels or channels, or left open."""
    return value is None or (type(value) is int and 0 < value <= LARGEST)


def filled_network(
    spec: NetworkSpec,
    file: Path,
    network_from: str | None,
    weights: dict[str, Tensor],
) -> Network:
    """The network with its weights; what they do not fill is never made.

    A folder may say any size, so a network of ours is first made without memory.
    """
    try:
        if network_from is None:
            with torch.device("meta"):
                planned = _network(spec, file, None).state_dict()
            _check_same(planned, weights)
        network = _network(spec, file, network_from)
        network.load_state_dict(weights)
    except GradsnapError:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise FileFormatError(f"{file} does not fit: {error}") from error
    return network


def _check_same(planned: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    """Refuses weights of other names or sizes than planned."""
    missing = [name for name in planned if name not in weights]
    unknown = [name for name in weights if name not in planned]
    if missing or unknown:
        raise ValueError(
            f"missing are {missing or 'none'}, unknown {unknown or 'none'}"
        )
    for name, value in planned.items():
        if value.shape != weights[name].shape:
            shapes = f"{tuple(weights[name].shape)}, expected {tuple(value.shape)}"
            raise ValueError(f"{name} is of shape {shapes}")


def _network(spec: NetworkSpec, file: Path, network_from: str | None) -> Network:
    if network_from is not None:
        return import_network(network_from, **spec.options)
    if spec.name is None or ":" in spec.name:
        raise InputError(
            f"the network of {file.parent} was built by a function of yours, which a "
            "folder must not name: say it yourself with --network-from "
            "package.module:function"
        )
    return untrained_network(spec.name, spec.options)

"""Weights in files of others: read without running code, fitted layer by layer."""

import logging
import os
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gradsnap.errors import FileFormatError, InputError

_log = logging.getLogger(__name__)


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
        Names of the layers that stayed fresh, in order; also logged.
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
    _log.info("layers that stayed fresh: %s", ", ".join(fresh) or "none")
    return fresh

"""A quantizer in one safetensors file: buffers, and the constructor's arguments."""

import json
import os
from typing import Any

import torch
from torch import Tensor

from gradsnap.coders.quantizers.quantizer import Quantizer
from gradsnap.errors import FileFormatError, InputError
from gradsnap.tensors import read_tensors, write_tensors

FORMAT = "gradsnap-quantizer-1"


def save_quantizer(quantizer: Quantizer, path: str | os.PathLike[str]) -> None:
    """Writes the quantizer beside ``path``, then renames it into place.

    Raises:
        InputError: it cannot be written there; what was there before still is.
    """
    metadata = {
        "format": FORMAT,
        "kind": _kind_of(quantizer),
        "config": json.dumps(quantizer.config()),
    }
    write_tensors(path, quantizer.state_dict(), metadata)


def load_quantizer(path: str | os.PathLike[str]) -> Quantizer:
    """Reads a quantizer written by ``Quantizer.save``; runs no code from the file.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or not a quantizer.
    """
    state, metadata = read_tensors(path, FORMAT, "a quantizer")
    return _rebuilt(os.fspath(path), metadata, state)


def _rebuilt(
    path: str, metadata: dict[str, str], state: dict[str, Tensor]
) -> Quantizer:
    from gradsnap.coders.quantizers import QUANTIZERS

    kind = metadata.get("kind", "")
    if kind not in QUANTIZERS:
        raise FileFormatError(
            f"{path} holds a quantizer of kind {kind!r}; known: {', '.join(QUANTIZERS)}"
        )
    try:
        config: dict[str, Any] = json.loads(metadata["config"])
        quantizer = QUANTIZERS[kind](**config).to(_floating_dtype(state))
        quantizer.load_state_dict(state)
    except (KeyError, TypeError, ValueError, RuntimeError, StopIteration) as error:
        raise FileFormatError(f"{path} does not fit a {kind}: {error}") from error
    return quantizer


def _floating_dtype(state: dict[str, Tensor]) -> torch.dtype:
    return next(value.dtype for value in state.values() if value.is_floating_point())


def _kind_of(quantizer: Quantizer) -> str:
    from gradsnap.coders.quantizers import QUANTIZERS

    for kind, known in QUANTIZERS.items():
        if type(quantizer) is known:
            return kind
    raise InputError(
        f"a {type(quantizer).__name__} is in no registry, so it could not be loaded "
        f"again; known: {', '.join(QUANTIZERS)}"
    )

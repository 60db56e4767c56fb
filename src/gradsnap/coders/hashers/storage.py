"""A hasher in one safetensors file: buffers, and the constructor's arguments."""

import json
import os
from typing import Any

from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.errors import FileFormatError, InputError
from gradsnap.tensors import read_tensors, write_tensors

FORMAT = "gradsnap-hasher-1"


def save_hasher(hasher: Hasher, path: str | os.PathLike[str]) -> None:
    """Writes the hasher beside ``path``, then renames it into place."""
    from gradsnap.coders.hashers import HASHERS

    kinds = {known: kind for kind, known in HASHERS.items()}
    if type(hasher) not in kinds:
        raise InputError(
            f"a {type(hasher).__name__} is in no registry, so it could not be loaded "
            f"again; known: {', '.join(HASHERS)}"
        )
    metadata = {
        "format": FORMAT,
        "kind": kinds[type(hasher)],
        "config": json.dumps(hasher.config()),
    }
    write_tensors(path, hasher.state_dict(), metadata)


def load_hasher(path: str | os.PathLike[str]) -> Hasher:
    """Reads a hasher written by ``Hasher.save``; runs no code from the file.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or not a hasher.
    """
    state, metadata = read_tensors(path, FORMAT, "a hasher")
    return _rebuilt(os.fspath(path), metadata, state)


def _rebuilt(path: str, metadata: dict[str, str], state: dict[str, Tensor]) -> Hasher:
    from gradsnap.coders.hashers import HASHERS

    if metadata.get("kind") not in HASHERS:
        raise FileFormatError(
            f"{path} holds a hasher of kind {metadata.get('kind')!r}; known: "
            f"{', '.join(HASHERS)}"
        )
    try:
        config: dict[str, Any] = json.loads(metadata["config"])
        hasher = HASHERS[metadata["kind"]](**config)
        hasher.restore(state)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(
            f"{path} does not fit a {metadata['kind']}: {error}"
        ) from error
    return hasher

"""A hasher in one safetensors file: buffers, and the constructor's arguments."""

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import replacing
from gradsnap.hashing.base import Hasher

FORMAT = "gradsnap-hasher-1"


def save_hasher(hasher: Hasher, path: str | os.PathLike[str]) -> None:
    """Writes the hasher beside ``path``, then renames it into place."""
    from gradsnap.hashing import HASHERS

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
    state = {name: value.contiguous() for name, value in hasher.state_dict().items()}
    try:
        with replacing(path) as temporary:
            save_file(state, temporary, metadata)
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot write {os.fspath(path)}: {error}") from error


def load_hasher(path: str | os.PathLike[str]) -> Hasher:
    """Reads a hasher written by ``Hasher.save``; runs no code from the file.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or not a hasher.
    """
    name = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"there is no file {name}")
    try:
        with safe_open(name, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{name} is truncated or not a safetensors file ({error})"
        ) from error
    return _rebuilt(name, metadata, state)


def _rebuilt(path: str, metadata: dict[str, str], state: dict[str, Tensor]) -> Hasher:
    from gradsnap.hashing import HASHERS

    if metadata.get("format") != FORMAT or metadata.get("kind") not in HASHERS:
        raise FileFormatError(
            f"{path} is not a hasher: its format is {metadata.get('format')!r} and its "
            f"kind {metadata.get('kind')!r}; known: {', '.join(HASHERS)}"
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

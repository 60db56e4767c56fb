"""Named tensors in a safetensors file with a few words beside them."""

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import replacing


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], words: dict[str, str]
) -> None:
    """Writes the tensors beside ``path``, then renames them into place.

    Raises:
        InputError: it cannot be written there; what was there before still is.
    """
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        with replacing(path) as temporary:
            save_file(plain, temporary, words)
    except (OSError, SafetensorError) as error:  # a full disk is either
        raise InputError(f"cannot write {os.fspath(path)}: {error}") from error


def read_tensors(
    path: str | os.PathLike[str], formats: str | tuple[str, ...], what: str
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and its words; runs no code from the file.

    Args:
        path: written by ``write_tensors``.
        formats: what its word "format" may be.
        what: the file should hold, for the error.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or of another format.
    """
    name = os.fspath(path)
    if not Path(path).is_file():
        raise InputError(f"there is no file {name}")
    try:
        with safe_open(name, framework="pt") as file:
            words = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{name} is truncated or not a safetensors file ({error})"
        ) from error
    known = (formats,) if isinstance(formats, str) else formats
    if words.get("format") not in known:
        raise FileFormatError(
            f"{name} is not {what}: its format is {words.get('format')!r}, "
            f"expected {known[0]!r}"
        )
    return tensors, words


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with ``prefix.`` before each name."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose name starts with ``prefix.``, without it."""
    start = f"{prefix}."
    return {
        name.removeprefix(start): value
        for name, value in tensors.items()
        if name.startswith(start)
    }

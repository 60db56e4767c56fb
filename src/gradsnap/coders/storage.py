"""A coder in one safetensors file: its buffers, and the constructor's arguments."""

import json
import os
from typing import Any

import torch
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.compiled import sparing_numba
from gradsnap.errors import FileFormatError, InputError
from gradsnap.files import check_finite, read_tensors, write_tensors
from gradsnap.registry import build

FORMAT = "gradsnap-coder-1"
EARLIER = ("gradsnap-quantizer-1", "gradsnap-hasher-1")
"""What files were called before quantizers and hashers shared one format."""

FLOATS = (torch.float16, torch.float32, torch.float64)
"""Types that codebooks may have."""

UNFIT = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What building or using a coder of wrong numbers may raise."""

RENAMED = {"anchors": "num_anchors"}
"""Arguments that had another name in such files."""


def save_coder(coder: Coder, path: str | os.PathLike[str]) -> None:
    """Writes the coder beside ``path``, then renames it into place.

    Raises:
        InputError: it cannot be written there; what was there before still is.
    """
    words = {
        "format": FORMAT,
        "kind": kind_of(coder),
        "config": json.dumps(coder.config()),
    }
    write_tensors(path, coder.state_dict(), words)


def load_coder(path: str | os.PathLike[str]) -> Coder:
    """Reads a coder written by ``Coder.save``; runs no code from the file.

    Raises:
        InputError: there is no such file.
        FileFormatError: the file is truncated, changed or not a coder.
    """
    state, words = read_tensors(path, (FORMAT, *EARLIER), "a coder")
    return rebuilt_coder(words, state, os.fspath(path))


def rebuilt_coder(words: dict[str, str], state: dict[str, Tensor], path: str) -> Coder:
    """The coder of a kind and config (``words``) with buffers ``state``."""
    from gradsnap.coders import CODERS  # which lists what this module is a part of

    kind = words.get("kind", "")
    if kind not in CODERS:
        raise FileFormatError(
            f"{path} holds a coder of kind {kind!r}; known: {', '.join(CODERS)}"
        )
    try:
        given: dict[str, Any] = dict(json.loads(words["config"]))
        config = {RENAMED.get(name, name): value for name, value in given.items()}
        with torch.device("meta"):  # sizes come from a file: first without memory
            _check_buffers(build(CODERS, kind, "coder", {}, config), state)
        coder = build(CODERS, kind, "coder", {}, config).to(_floating_dtype(state))
        coder.load_state_dict(state)
    except UNFIT as error:
        raise FileFormatError(f"{path} does not fit a {kind}: {error}") from error
    bounded = {n: value for n, value in state.items() if n not in coder.unbounded}
    check_finite(bounded, path)
    _try(coder, path)
    return coder


def _check_buffers(planned: Coder, state: dict[str, Tensor]) -> None:
    """Refuses buffers of other types or shapes than such a coder has."""
    floating = _floating_dtype(state)
    if floating not in FLOATS:
        raise ValueError(f"its numbers are {floating}")
    for name, own in planned.state_dict().items():
        wanted = floating if own.is_floating_point() else own.dtype
        given = state[name]
        if given.dtype != wanted or given.shape != own.shape:
            raise ValueError(
                f"{name} is {given.dtype} {tuple(given.shape)}, expected {wanted} "
                f"{tuple(own.shape)}"
            )


def _try(coder: Coder, path: str) -> None:
    """Encodes one vector, so that numbers that lead nowhere are noticed now.

    By the twins in torch: a program that only opens a file need not import numba.
    """
    if not bool(coder.fitted):
        return
    try:
        zero = torch.zeros(1, coder.dim, dtype=coder.dtype)
        with sparing_numba(True):
            coder.code_tables(coder.encode(zero))
            coder.tables(zero)
    except UNFIT as error:
        raise FileFormatError(
            f"{path} is damaged and cannot encode: {error}"
        ) from error


def kind_of(coder: Coder) -> str:
    """The coder's name in the registry.

    Raises:
        InputError: it has none, so that a file of it could not be read again.
    """
    from gradsnap.coders import CODERS

    for kind, known in CODERS.items():
        if type(coder) is known:
            return kind
    raise InputError(
        f"a {type(coder).__name__} is in no registry, so it could not be loaded "
        f"again; known: {', '.join(CODERS)}"
    )


def _floating_dtype(state: dict[str, Tensor]) -> torch.dtype:
    floating = (one.dtype for one in state.values() if one.is_floating_point())
    return next(floating, torch.float32)

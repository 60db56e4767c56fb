"""Pickles that may hold numpy arrays and plain containers, and nothing that runs."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from gradsnap.errors import FileFormatError


def _latin1(text: str, encoding: str) -> bytes:
    """What Python 3 writes for bytes in old pickles, for that one encoding."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


_REBUILD: object = np.empty(0).__reduce__()[0]
_FROM_BUFFER: object = np.empty(0).__reduce_ex__(5)[0]

ADMITTED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy._core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy.core.numeric", "_frombuffer"): _FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): _FROM_BUFFER,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
}
"""Every name a pickle may ask for; dicts, lists, numbers and strings need none."""


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ADMITTED[module, name]


def read_arrays(path: str | os.PathLike[str]) -> dict[str, object]:
    """A pickled dict of arrays and plain values, with its keys as strings.

    Raises:
        FileFormatError: the file is truncated, or holds anything but numpy arrays and
            Python's own containers, numbers and strings.
    """
    try:
        with Path(path).open("rb") as file:
            content = _ArrayUnpickler(file, encoding="bytes").load()
    except OSError:
        raise
    except Exception as error:  # a pickle is a program: it can fail in any way
        raise FileFormatError(
            f"{path} is truncated, or not a pickle of arrays only: {error}"
        ) from error
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} holds a {type(content).__name__}, not a dict")
    return {_text(key): value for key, value in content.items()}


def _text(key: object) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)

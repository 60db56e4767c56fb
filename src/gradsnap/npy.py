"""Rows written to an ``.npy`` file as they come, without holding or mapping them.

A mapped file on a full disk ends the process by a signal; a written one is an error
that can be told.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.errors import InputError
from gradsnap.files import make_folder, replacing

Array = NDArray[Any]


def write_rows(path: Path, parts: Iterable[Array], total: int) -> None:
    """Writes rows (total, …) beside ``path``, then renames them into place.

    Args:
        path: of the file.
        parts: rows in order, at least one part; all of one type and width.
        total: how many rows come in all.

    Raises:
        InputError: it cannot be written there; what was there before still is.
    """
    make_folder(path.parent)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            for number, part in enumerate(parts):
                if number == 0:
                    whole = (total, *part.shape[1:])
                    header = {"shape": whole, "fortran_order": False}
                    header["descr"] = np.lib.format.dtype_to_descr(part.dtype)
                    np.lib.format.write_array_header_2_0(file, header)
                file.write(np.ascontiguousarray(part).data)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error

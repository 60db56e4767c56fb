"""Codes side by side, so that small tables look up many of them at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import kernels

Array = NDArray[Any]

NO_BLOCKS = np.empty((0, 8, 32), dtype=np.uint8)


def blocks_of(words: Array) -> Array:
    """Codes (n,), uint64, in blocks: byte j of each side by side, (b, 8, 32 or 64).

    The last block is filled up with zeros. Empty where no kernel can use them.
    """
    compiled = kernels("gradsnap.index.shuffles_compiled") if words.size else None
    if compiled is None or not compiled.HAS_SHUFFLE:
        return NO_BLOCKS
    each = compiled.SIDE_BY_SIDE
    whole = np.zeros(-(-len(words) // each) * each, dtype=np.uint64)
    whole[: len(words)] = words
    rows = whole.view(np.uint8).reshape(-1, each, compiled.BYTES)
    return np.ascontiguousarray(rows.transpose(0, 2, 1))

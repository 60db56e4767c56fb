"""Arrays that begin where a line of memory does.

Registers of 64 bytes that are read from elsewhere are read from two lines, which takes
twice as long: kernels that read little but their own small arrays took up to a third
longer, by chance of where memory was free.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled, compiled_in_place

Array = NDArray[Any]

LINE = 64
"""Bytes of memory that come together."""


@compiled
def in_line(count: int, kind: Any) -> Array:
    """Room for as many numbers of a kind, (count,)."""
    room = np.empty(count + LINE, kind)
    start = (-room.ctypes.data % LINE) // room.itemsize
    return room[start : start + count]


@compiled
def rows_in_line(rows: int, count: int, kind: Any) -> Array:
    """The same for rows (rows, at least count), each from a line on."""
    step = LINE // np.empty(1, kind).itemsize
    length = -(-count // step) * step
    return in_line(rows * length, kind).reshape(rows, length)


@compiled_in_place
def copy(numbers: Array, to: Array) -> None:
    """Copies numbers (n,) to at least as many places.

    Assigning an array to a slice asks whether the two overlap, and for room if so.
    """
    for i in range(numbers.shape[0]):
        to[i] = numbers[i]

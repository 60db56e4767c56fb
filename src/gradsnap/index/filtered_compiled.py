"""Where ids stand, compiled: see ``filtering``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]


@compiled_in_place
def choose(
    ids: Array, first: int, inverse: Array, mask: Array, positions: Array
) -> int:
    """Where ids stand, each once.

    Args:
        ids: int64 (r,).
        first: the id of position 0 where there is no table.
        inverse: the position of every id from 0 on, -1 for none; empty for none.
        mask: bool (n,), all false; true in the end where an id stands.
        positions: int64 (r,), filled.

    Returns:
        How many positions there are; -1 where an id is nowhere.
    """
    count = 0
    for i in range(ids.shape[0]):
        at = ids[i]
        if inverse.size == 0:
            at -= first
        elif at < inverse.size:
            at = inverse[at]
        else:
            return -1
        if at < 0 or at >= mask.size:
            return -1
        if not mask[at]:
            mask[at] = True
            positions[count] = at
            count += 1
    return count


@compiled_in_place
def mark(ids: Array, first: int, count: int, marks: Array) -> int:
    """Sets the bits of ids that lie in ``first`` up to ``first + count``.

    Ids mostly ascend, so a word is held until another one is wanted.

    Args:
        ids: int64 (r,).
        first: the id of bit 0.
        count: how many ids there are.
        marks: uint64 (⌈count / 64⌉,), all 0; filled.

    Returns:
        How many bits were set; -1 where an id lies outside.
    """
    different, held, word = 0, 0, np.uint64(0)
    for i in range(ids.shape[0]):
        at = ids[i] - first
        if at < 0 or at >= count:
            return -1
        if at >> 6 != held:
            marks[held] = word
            held = at >> 6
            word = marks[held]
        bit = np.uint64(1) << np.uint64(at & 63)
        different += (word & bit) == 0
        word |= bit
    if ids.shape[0]:
        marks[held] = word
    return different


@compiled_in_place
def unmark(
    keys: tuple[Array, Array], marks: Array, spans: Array, lists: Array, mask: Array
) -> None:
    """Fills mask (n,) in the lists (q, p) of queries: which items are marked.

    Args:
        keys: ids as uint32 (n,) or as int64 (n,), the other empty; with both empty
            they count up, and so do the marks.
        marks: see ``mark``.
        spans: where each list begins, int64 (lists + 1,).
        lists: int64 (q, p).
        mask: bool (n,); nothing is read of it.
    """
    short, long = keys[0], keys[1]
    for number in lists.flat:
        for at in range(spans[number], spans[number + 1]):
            key = np.int64(at)
            if short.size:
                key = np.int64(short[at])
            elif long.size:
                key = long[at]
            mask[at] = (marks[key >> 6] >> np.uint64(key & 63)) & np.uint64(1) != 0

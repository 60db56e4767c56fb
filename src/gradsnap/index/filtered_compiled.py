"""Where ids stand, compiled: see ``filtering``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.compiled import compiled

Array = NDArray[Any]


@compiled
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

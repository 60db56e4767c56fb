"""The k smallest of all sums there are, compiled: see ``candidates``.

Where codes are so short that all of them can be listed, that is the fastest way.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.beam_compiled import lowest
from gradsnap.coders.quantizers.smallest_compiled import BINS, order_smallest, settle
from gradsnap.compiled import compiled

Array = NDArray[Any]


@compiled
def _list(tables: Array, sums: Array) -> None:
    """All sums (K ** M,) of entries (M, K), one per codebook; the last goes fastest."""
    size, count = tables.shape[1], tables.shape[1]
    sums[:size] = tables[0]
    for m in range(1, tables.shape[0]):
        for i in range(count - 1, -1, -1):  # from the end: nothing is overwritten
            start = sums[i]
            for k in range(size):
                sums[i * size + k] = start + tables[m, k]
        count *= size


@compiled
def smallest_of_all(tables: Array, k: int, distances: Array, codes: Array) -> None:
    """The k smallest sums of one entry per codebook, for each row, ascending.

    Args:
        tables: (n, M, K), entries.
        k: how many; at most K ** M.
        distances: (n, k), filled.
        codes: (n, k, M), filled.
    """
    rows, num_codebooks, size = tables.shape
    sums = np.empty(size**num_codebooks, tables.dtype)
    gaps, order = np.empty_like(sums), np.empty(len(sums), np.int32)
    bins = np.empty(BINS, np.int32)
    for row in range(rows):
        _list(tables[row], sums)
        low = lowest(sums)
        for i in range(len(sums)):
            gaps[i] = sums[i] - low
        order_smallest(gaps, len(sums), k, bins, order)
        for i in range(k):
            at = order[i]
            distances[row, i] = sums[at]
            for m in range(num_codebooks - 1, -1, -1):
                codes[row, i, m] = at % size
                at //= size
        settle(distances[row], codes[row])

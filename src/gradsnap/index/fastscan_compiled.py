"""Candidates of fast-scan scored again, compiled; see ``fastscan``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled
from gradsnap.index.heaps_compiled import merge, offer

Array = NDArray[Any]

NO_KEY = np.iinfo(np.int64).max


@compiled
def _packed_sum(codes: Array, at: int, table: Array) -> Any:
    """The distance of one packed code by the table (M, 16) of a query."""
    total = table[0, np.int64(codes[at, 0]) & 15]
    for m in range(1, table.shape[0]):
        total += table[m, (np.int64(codes[at, m >> 1]) >> (4 * (m & 1))) & 15]
    return total


@compiled
def rescore(
    columns: tuple[Any, ...],
    alive: Array,
    candidates: tuple[Array, Array],
    tables: Array,
    rows: Array,
    heaps: tuple[Any, ...],
) -> Array:
    """Offers candidates to the heaps of those queries whose results they prove.

    Args:
        columns: ``Columns`` as a plain tuple, codes packed, uint8 (n, ⌈M / 2⌉).
        alive: which items may be found, (n,) bool, or empty for all.
        candidates: positions, int64 (q, r), -1 where there are no more, and what all
            other items are at least away, (q,).
        tables: of the queries, float32 (q, M, 16).
        rows: the heap of each query, int64 (q,).
        heaps: distances, keys and places, (·, k) each, changed in place.

    Returns:
        For which queries, bool (q,).
    """
    at, least = candidates
    distances, keys, places = heaps
    k = distances.shape[1]
    own = (np.empty(k, np.float32), np.empty(k, np.int64), np.empty(k, np.int64))
    proven = np.zeros(at.shape[0], np.bool_)
    for q in range(at.shape[0]):
        own[0][:] = np.inf
        own[1][:] = NO_KEY
        own[2][:] = -1
        for position in at[q]:
            if position >= 0 and (alive.size == 0 or alive[position]):
                total = _packed_sum(columns[0], position, tables[q])
                offer(own, columns, total, position)
        proven[q] = least[q] > own[0][0] or at[q, -1] < 0
        if proven[q]:
            heap = (distances[rows[q]], keys[rows[q]], places[rows[q]])
            merge(heap, own)
    return proven

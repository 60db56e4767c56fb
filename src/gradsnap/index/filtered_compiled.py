"""Scans of some items only, compiled; see ``scanning_compiled``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.compiled import compiled
from gradsnap.index.scanning_compiled import _eight_sum, _offer

Array = NDArray[Any]


@compiled
def _sum_at(columns: tuple[Any, ...], at: int, table: Array) -> Any:
    """The distance of one item by the table (M, K) of a query, in codebook order."""
    codes, bias = columns[0], columns[1]
    total = table[0, codes[at, 0]]
    for m in range(1, codes.shape[1]):
        total += table[m, codes[at, m]]
    if bias.size:
        total += bias[at]
    return total


@compiled
def scan_few(
    columns: tuple[Any, ...],
    alive: Array,
    spans: Array,
    tables: Array,
    heaps: tuple[Any, ...],
) -> None:
    """``scan_lists`` where most items do not count: nothing is added up for those.

    Args:
        columns: as for ``scan_group``.
        alive: which items count, (n,) bool.
        spans: start, stop and table of each list of each query, (q, p, 3).
        tables: float32 (t, M, K).
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    distances, keys, places = heaps
    for q in range(spans.shape[0]):
        heap = (distances[q], keys[q], places[q])
        for p in range(spans.shape[1]):
            table = tables[spans[q, p, 2]]
            for at in range(spans[q, p, 0], spans[q, p, 1]):
                if alive[at]:
                    total = _sum_at(columns, at, table)
                    if total <= distances[q, 0]:
                        _offer(heap, columns, total, at)


@compiled
def scan_chosen(
    columns: tuple[Any, ...], positions: Array, tables: Array, heaps: tuple[Any, ...]
) -> None:
    """Scans the items at positions (r,), any order, for each query.

    Args:
        columns: as for ``scan_group``.
        positions: int64 (r,), each once.
        tables: of the queries, float32 (q, M, K).
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    distances, keys, places = heaps
    for q in range(distances.shape[0]):
        heap = (distances[q], keys[q], places[q])
        for at in positions:
            total = _sum_at(columns, at, tables[q])
            if total <= distances[q, 0]:
                _offer(heap, columns, total, at)


@compiled
def scan_chosen_words(
    columns: tuple[Any, ...],
    words: Array,
    positions: Array,
    tables: Array,
    heaps: tuple[Any, ...],
) -> None:
    """The same for codes of eight codebooks of 256, words (n,) and tables (q, 2048)."""
    distances, keys, places = heaps
    for q in range(distances.shape[0]):
        heap = (distances[q], keys[q], places[q])
        table, worst = tables[q], distances[q, 0]
        for at in positions:
            total = _eight_sum(table, words[at])
            if total <= worst:
                _offer(heap, columns, total, at)
                worst = distances[q, 0]


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

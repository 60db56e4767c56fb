"""All of a search of a few queries in lists, compiled: see ``few``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.block_tables_compiled import block_tables
from gradsnap.compiled import compiled
from gradsnap.index.lists_compiled import scan_lists
from gradsnap.index.probing_compiled import nearest_centroids, nearest_pairs

Array = NDArray[Any]


@compiled
def _find_lists(coarse: tuple[Array, Array, Array], lists: Array) -> None:
    """Fills lists (q, p) by centroids, or by pairs of codewords."""
    rows, tiles, halves = coarse
    if halves.size:
        values = np.empty(lists.shape, rows.dtype)
        nearest_centroids(rows, tiles, halves, values, lists)
    else:
        entries = np.empty((rows.shape[0], 2, tiles.shape[1]), rows.dtype)
        block_tables(rows, tiles, entries)
        nearest_pairs(entries, lists)


@compiled
def scan_few(
    coarse: tuple[Array, Array, Array],
    blocks: tuple[Array, Array],
    made: tuple[Array, Array],
    columns: tuple[Any, ...],
    counted: tuple[Array, bool],
    spans: tuple[Array, int],
    heaps: tuple[Any, ...],
) -> None:
    """Finds lists, makes tables, and scans.

    Args:
        coarse: rows, tiles and halves of a ``Coarse``.
        blocks: queries (q, M · width) and codebooks (M, K, width).
        made: lists int64 (q, p) and tables float32 (q, M, K), filled.
        columns: as for ``scan_lists``, and so are the others.
        counted: which items count.
        spans: where lists begin and end.
        heaps: changed in place.
    """
    lists, tables = made
    _find_lists(coarse, lists)
    block_tables(blocks[0], blocks[1], tables)
    scan_lists(columns, counted, spans, lists, tables, heaps)

"""All of a search in lists, compiled: see ``together``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.block_tables_compiled import turned_tables
from gradsnap.coders.quantizers.tiles_compiled import rotate
from gradsnap.compiled import compiled, compiled_strictly
from gradsnap.index.filtered_compiled import unmark
from gradsnap.index.heaps_compiled import sort_heaps
from gradsnap.index.lists_compiled import scan_lists
from gradsnap.index.probing_compiled import nearest_centroids, nearest_pairs
from gradsnap.index.together import AT_ONCE

Array = NDArray[Any]
Words = tuple[Array, Array, Array, Array, Array]
"""As in ``together.Prepared``."""

LARGEST = float(np.finfo(np.float32).max) / 64
"""Squared lengths up to here are those ``checked_rows`` lets pass."""


@compiled_strictly  # what is no number must be noticed
def _can_be_squared(rows: Array) -> bool:
    """Whether rows (q, dim) are short enough."""
    flat = rows.reshape(rows.size)
    total = 0.0
    for i in range(flat.size):
        total += np.float64(flat[i]) * np.float64(flat[i])
    return total <= LARGEST


@compiled
def _empty(count: int, k: int) -> tuple[Array, Array, Array]:
    """Heaps (count, k) in which nothing is yet: distances, keys and places."""
    distances = np.full((count, k), np.float32(np.inf), np.float32)
    keys = np.full((count, k), np.iinfo(np.int64).max, np.int64)
    return distances, keys, np.full((count, k), -1, np.int64)


@compiled
def _end(heaps: tuple[Array, Array, Array]) -> None:
    """Sorts heaps; key -1 where nothing was found."""
    sort_heaps(heaps)
    for q in range(heaps[1].shape[0]):
        for i in range(heaps[1].shape[1]):
            if heaps[2][q, i] < 0:
                heaps[1][q, i] = -1


@compiled
def _rotated(rows: Array, rotation: Array) -> Array:
    """Rows (q, dim) rotated, if they are to be."""
    if rotation.shape[0] == 0:
        return rows
    turned = np.empty(rows.shape, rows.dtype)
    rotate(rows, rotation, turned)
    return turned


@compiled
def begin(rows: tuple[Array, Array], words: Words, probes: int) -> tuple[Array, Array]:
    """The lists (q, probes) and tables (q, M, K) of queries.

    Args:
        rows: as they are compared to find lists, (q, dim) or (q, 2 · width), and in
            blocks, (q, M · width); or before they are rotated so.
        words: what they are compared with; no halves where lists are pairs.
        probes: lists a query looks into.
    """
    tiles, halves, books = words[0], words[1], words[2]
    near, blocks = _rotated(rows[0], words[3]), _rotated(rows[1], words[4])
    lists = np.empty((near.shape[0], probes), np.int64)
    if halves.size:
        values = np.empty(lists.shape, near.dtype)
        nearest_centroids(near, tiles, halves, values, lists)
    else:
        entries = np.empty((near.shape[0], 2, tiles.shape[2]), near.dtype)
        turned_tables(near, tiles, entries)
        nearest_pairs(entries, lists)
    tables = np.empty((blocks.shape[0], books.shape[0], books.shape[2]), np.float32)
    turned_tables(blocks, books, tables)
    return lists, tables


@compiled
def search_lists(
    rows: tuple[Array, Array],
    words: Words,
    part: tuple[Any, ...],
    marks: Array,
    probes: int,
    k: int,
) -> tuple[Array, Array, Array]:
    """Checks the queries, finds lists, makes tables, scans and sorts.

    Args:
        rows: as for ``begin``, and so are words and probes.
        words: what they are compared with.
        part: columns, counted and spans of ``scan_lists``.
        marks: of the ids that count, as in ``filtering.Marked``; what counts is then
            written to where it is looked for. Empty where that is known.
        probes: lists a query looks into.
        k: how many to find.

    Returns:
        Distances, keys and places, (q, k) each, ascending; key -1 where nothing was
        found, and no rows at all where queries cannot be squared.
    """
    heaps = _empty(rows[0].shape[0] if _can_be_squared(rows[0]) else 0, k)
    for start in range(0, heaps[0].shape[0], AT_ONCE):
        stop = start + AT_ONCE
        own = (rows[0][start:stop], rows[1][start:stop])
        lists, tables = begin(own, words, probes)
        if marks.size:
            unmark((part[0][2], part[0][3]), marks, part[2][0], lists, part[1][0])
        some = (heaps[0][start:stop], heaps[1][start:stop], heaps[2][start:stop])
        scan_lists(part[0], part[1], part[2], lists, tables, some)
    _end(heaps)
    return heaps


@compiled
def search_whole(
    rows: Array, books: Array, part: tuple[Any, ...], k: int
) -> tuple[Array, Array, Array]:
    """The same for all items of a part, which is one list.

    Args:
        rows: in blocks, (q, M · width).
        books: codebooks turned around, (M, width, K).
        part: columns, counted and spans of ``scan_lists``.
        k: how many to find.
    """
    heaps = _empty(rows.shape[0] if _can_be_squared(rows) else 0, k)
    if heaps[0].size:
        tables = np.empty((rows.shape[0], books.shape[0], books.shape[2]), np.float32)
        turned_tables(rows, books, tables)
        lists = np.zeros((rows.shape[0], 1), np.int64)
        scan_lists(part[0], part[1], part[2], lists, tables, heaps)
        _end(heaps)
    return heaps

"""One pass over codes for a group of queries, compiled: see ``scanning``.

Each code is read once for up to 32 queries, whose table entries lie side by side, so
that one instruction adds for eight of them. Plain torch does the same, bit for bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled, compiled_in_place
from gradsnap.index.heaps_compiled import offer
from gradsnap.lines_compiled import in_line

Array = NDArray[Any]

BLOCK = 64
"""Codes added up before they are compared with the worst results."""


@compiled_in_place
def _add_one(sums: Array, codes: Array, table: Array, m: int) -> None:
    """Adds the entries (K, W) of codebook m to sums (e, W)."""
    for i in range(sums.shape[0]):
        word = codes[i, m]
        for j in range(table.shape[1]):
            sums[i, j] += table[word, j]


@compiled_in_place
def _add_two(sums: Array, codes: Array, tables: Array, m: int) -> None:
    """Adds the entries of codebooks m and m + 1, which spares a pass over the sums."""
    left, right = tables[m], tables[m + 1]
    for i in range(sums.shape[0]):
        word, next_word = codes[i, m], codes[i, m + 1]
        for j in range(left.shape[1]):
            sums[i, j] = (sums[i, j] + left[word, j]) + right[next_word, j]


@compiled_in_place
def _add_block(sums: Array, codes: Array, bias: Array, tables: Array) -> None:
    """Sums (e, W) of the table entries of codes (e, M), in codebook order."""
    num_codebooks = codes.shape[1]
    first = tables[0]
    for i in range(sums.shape[0]):
        word = codes[i, 0]
        for j in range(first.shape[1]):
            sums[i, j] = first[word, j]
    paired = 1 + (num_codebooks - 1) // 2 * 2
    for m in range(1, paired, 2):
        _add_two(sums, codes, tables, m)
    if paired < num_codebooks:
        _add_one(sums, codes, tables[paired], paired)
    if bias.size:
        for i in range(sums.shape[0]):
            for j in range(sums.shape[1]):
                sums[i, j] += bias[i]


@compiled
def scan_group(
    columns: tuple[Any, ...], ranges: Array, tables: Array, heaps: tuple[Any, ...]
) -> None:
    """Scans the same items for a group of W queries.

    Args:
        columns: ``Columns`` as a plain tuple.
        ranges: positions to scan, (r, 2), half-open.
        tables: float32 (M, K, W).
        heaps: distances, keys and places, (W, k) each, changed in place.
    """
    codes, bias = columns[0], columns[1]
    distances, keys, places = heaps
    width = tables.shape[2]
    worst = distances[:, 0].copy()
    sums = in_line(BLOCK * width, np.float32).reshape(BLOCK, width)
    for r in range(ranges.shape[0]):
        for start in range(ranges[r, 0], ranges[r, 1], BLOCK):
            count = min(BLOCK, ranges[r, 1] - start)
            stop = start + count
            _add_block(sums[:count], codes[start:stop], bias[start:stop], tables)
            for i in range(count):
                hits = 0
                for j in range(width):
                    hits += sums[i, j] <= worst[j]
                if hits == 0:
                    continue
                for j in range(width):
                    if sums[i, j] <= worst[j]:
                        heap = (distances[j], keys[j], places[j])
                        offer(heap, columns, sums[i, j], start + i)
                        worst[j] = distances[j, 0]

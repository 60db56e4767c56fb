"""Products with many rows at once, compiled: see ``tiles``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.coders.quantizers.tiles import TILE
from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]

FOUR = 4
"""Queries that are multiplied by a tile together."""


@compiled_in_place
def score_some(rows: Array, tile: Array, starts: Array, scores: Array) -> None:
    """``starts − ⟨row, c⟩`` for each c of a tile, of up to four rows.

    Args:
        rows: (at most FOUR, dim).
        tile: (dim, TILE).
        starts: at least TILE.
        scores: filled, (FOUR · TILE,).
    """
    count = rows.shape[0]
    for r in range(count):
        for i in range(TILE):
            scores[TILE * r + i] = starts[i]
    if count == FOUR:
        _score_four(rows, tile, scores)
    else:
        for r in range(count):
            _score(rows[r], tile, scores[TILE * r : TILE * (r + 1)])


@compiled_in_place
def _score(row: Array, tile: Array, scores: Array) -> None:
    """Takes ⟨row, c⟩ of each c of a tile (dim, TILE) from scores (TILE,)."""
    whole = row.shape[0] // 4 * 4
    for j in range(0, whole, 4):
        a, b, c, d = row[j], row[j + 1], row[j + 2], row[j + 3]
        first, second, third, fourth = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for i in range(TILE):
            two = (scores[i] - a * first[i]) - b * second[i]
            scores[i] = (two - c * third[i]) - d * fourth[i]
    for j in range(whole, row.shape[0]):
        for i in range(TILE):
            scores[i] -= row[j] * tile[j, i]


@compiled_in_place
def _score_four(rows: Array, tile: Array, scores: Array) -> None:
    """The same, to the bit, of four rows (4, dim), scores (4 · TILE,).

    What is read of the tile serves all four: two thirds of the time.
    """
    whole = rows.shape[1] // 2 * 2
    for j in range(0, whole, 2):
        a, b, c, d = rows[0, j], rows[1, j], rows[2, j], rows[3, j]
        e, f, g, h = rows[0, j + 1], rows[1, j + 1], rows[2, j + 1], rows[3, j + 1]
        first, second = tile[j], tile[j + 1]
        for i in range(TILE):
            x, y = first[i], second[i]
            scores[i] = (scores[i] - a * x) - e * y
            scores[TILE + i] = (scores[TILE + i] - b * x) - f * y
            scores[2 * TILE + i] = (scores[2 * TILE + i] - c * x) - g * y
            scores[3 * TILE + i] = (scores[3 * TILE + i] - d * x) - h * y
    for j in range(whole, rows.shape[1]):
        for r in range(FOUR):
            for i in range(TILE):
                scores[TILE * r + i] -= rows[r, j] * tile[j, i]


@compiled_in_place
def rotate(rows: Array, rotation: Array, turned: Array) -> None:
    """Fills turned (q, dim) with rows (q, dim) times a rotation (dim, dim).

    What is read of the rotation serves all rows.
    """
    whole = rows.shape[1] // 4 * 4
    for q in range(rows.shape[0]):
        for i in range(turned.shape[1]):
            turned[q, i] = 0
    for j in range(0, whole, 4):
        for q in range(rows.shape[0]):
            _add_four(rows[q, j : j + 4], rotation[j : j + 4], turned[q])
    for j in range(whole, rows.shape[1]):
        for q in range(rows.shape[0]):
            _add_one(rows[q, j], rotation[j], turned[q])


@compiled_in_place
def _add_four(values: Array, lines: Array, sums: Array) -> None:
    """Adds four lines (4, dim) times their values (4,) to sums (dim,), in order."""
    a, b, c, d = values[0], values[1], values[2], values[3]
    first, second, third, fourth = lines[0], lines[1], lines[2], lines[3]
    for i in range(sums.shape[0]):
        two = (sums[i] + a * first[i]) + b * second[i]
        sums[i] = (two + c * third[i]) + d * fourth[i]


@compiled_in_place
def _add_one(value: Any, line: Array, sums: Array) -> None:
    for i in range(sums.shape[0]):
        sums[i] += value * line[i]

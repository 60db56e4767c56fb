"""Snapping with a product quantizer, compiled: see ``snapping`` and ``fused``.

One row at a time, from its tables to its gradient: the T nearest codewords are found in
no order, and only of those that may win is the falloff computed.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.beam_compiled import lane_minima, lowest
from gradsnap.coders.quantizers.candidates_compiled import (
    INFINITE,
    Room,
    find,
    half,
    learn,
    make_room,
    word_at,
)
from gradsnap.coders.quantizers.smallest_compiled import choose_smallest, largest
from gradsnap.compiled import compiled, compiled_loosely, compiled_strictly

Array = NDArray[Any]
Rows = tuple[Array, Array, Array, Array]
"""‖c‖²/2 − ⟨y, c⟩ of blocks, (M, n, K); embeddings y and gradients, (n, M · width)
each; codebooks (M, K, width)."""
Done = tuple[Array, Array, Array, Array, Array]
"""Δy (n, M · width); cosine, distance, accepted (n,); nearest codewords (n, M)."""

TINY = np.float32(np.finfo(np.float32).tiny)
MOST = np.float32(np.finfo(np.float32).max / 64)
ZERO, ONE = np.float32(0), np.float32(1)
LESS = np.float32(1 - 1e-4)
"""Rounding changes weights by less than this."""


@compiled_strictly
def _square(row: Array) -> Any:
    total = ZERO
    for j in range(row.shape[0]):
        total += row[j] * row[j]
    return total


@compiled_strictly
def can_be_squared(rows: Array) -> Any:
    """Whether rows (n, dim) are finite, and all their squares together too."""
    total = ZERO
    for row in range(rows.shape[0]):
        total += _square(rows[row])
    return total <= MOST


@compiled_loosely
def _dot(a: Array, b: Array) -> Any:
    total = ZERO
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled
def _fill_entries(scores: Array, y: Array, row: int, entries: Array) -> None:
    """Squared distances of the row's blocks to all codewords, (M, K).

    Args:
        scores: ‖c‖²/2 − ⟨y, c⟩ of blocks, (M, n, K).
        y: the row, (M · width,).
        row: its number.
        entries: filled.
    """
    width = y.shape[0] // entries.shape[0]
    for m in range(entries.shape[0]):
        block, of_row, own = y[m * width : (m + 1) * width], scores[m, row], entries[m]
        square = _dot(block, block)
        for word in range(own.shape[0]):
            own[word] = max(ZERO, (of_row[word] + of_row[word]) + square)


@compiled
def _first_least(scores: Array, lanes: Array, scratch: Array) -> Any:
    """The first of the least scores (K,)."""
    lane_minima(scores, lanes, scratch)
    low, first = lowest(lanes), scores.shape[0]
    for lane in range(lanes.shape[0]):
        if lanes[lane] == low:
            at = lane
            while scores[at] != low:
                at += lanes.shape[0]
            first = min(first, at)
    return first


@compiled
def _only_zero(sums: Array, count: int) -> int:
    """Where the one zero stands among the sums; -1 if there are several."""
    at, zeros = 0, 0
    while sums[at] > 0:
        at += 1
    for i in range(count):
        zeros += sums[i] <= 0
    return at if zeros == 1 else -1


@compiled
def _fill_nearest(
    scores: Array, row: int, room: Room, count: int, nearest: Array
) -> None:
    """The nearest codeword of each block of the row, the first of them on ties.

    Args:
        scores: ‖c‖²/2 − ⟨y, c⟩, (M, n, K).
        row: of the scores.
        room: in which ``count`` sums of gaps were found.
        count: how many; that of the nearest codewords is zero.
        nearest: (n, M), filled at the row.
    """
    place = _only_zero(room[1][1][0], count)
    for m in range(scores.shape[0]):
        if place >= 0:
            nearest[row, m] = word_at(room, m, place)
        else:
            nearest[row, m] = _first_least(scores[m, row], room[0][1], room[0][2])


@compiled
def _fill_inner(g: Array, codebooks: Array, named: Any, inner: Array) -> None:
    """⟨g, c⟩ of the codewords that occur, blocks of g (M · width,), into (M, K)."""
    width = codebooks.shape[2]
    for m in range(codebooks.shape[0]):
        block, words = g[m * width : (m + 1) * width], named[0][m]
        for i in range(named[1][m]):
            inner[m, words[i]] = _dot(block, codebooks[m, words[i]])


@compiled
def _add_lists(
    entries: Array, inner: Array, room: Room, sides: tuple[Array, Array]
) -> None:
    """Distances and ⟨g, c⟩ of the parts that sums were added up from.

    Args:
        entries: of the row, (M, K).
        inner: ⟨g, c⟩ of the codewords that occur, (M, K).
        room: in which the sums were found.
        sides: filled, (2, room) each.
    """
    distances, along = sides
    words, counts = room[1][0][1], room[1][0][2]
    middle = half(words.shape[0])
    for m in range(words.shape[0]):
        side = 0 if m < middle else 1
        count = counts[middle * side]
        own, inner_own, of_list = entries[m], inner[m], words[m]
        to_distances, to_along = distances[side], along[side]
        if m == 0 or m == middle:
            to_distances[:count] = ZERO
            to_along[:count] = ZERO
        for i in range(count):
            to_distances[i] += own[of_list[i]]
            to_along[i] += inner_own[of_list[i]]


@compiled
def _add_up(
    sides: tuple[Array, Array], sums: Any, chosen: Array, near: tuple[Array, Array]
) -> None:
    """Squared distances and ⟨g, c⟩ of the chosen sums, (T,) each."""
    lefts, rights = sums[1], sums[2]
    for i in range(near[0].shape[0]):
        left, right = lefts[chosen[i]], rights[chosen[i]]
        near[0][i] = sides[0][0, left] + sides[0][1, right]
        near[1][i] = sides[1][0, left] + sides[1][1, right]


@compiled_loosely
def _mean(values: Array) -> Any:
    total = ZERO
    for i in range(values.shape[0]):
        total += values[i]
    return total / np.float32(values.shape[0])


@compiled_loosely
def _measure(distances: Array, slopes: Array, lengths: Array, steepness: Array) -> None:
    """Lengths of offsets, and ⟨g, u⟩, from squared distances and ⟨g, y − c⟩: (T,)."""
    for i in range(distances.shape[0]):
        length = np.float32(math.sqrt(distances[i]))
        lengths[i] = length
        steepness[i] = slopes[i] / max(length, TINY)


@compiled
def _choose(
    distances: Array, slopes: Array, span: tuple[Any, Any], scratch: Array
) -> tuple[int, Any]:
    """c* = argmax w⟨g, u⟩, the nearer on ties, and its weight.

    w falls with the distance, so that the steepest has at least w of the farthest: a
    codeword that falls short of this even with w of the nearest cannot win.

    Args:
        distances: squared, (T,).
        slopes: ⟨g, y − c⟩, (T,).
        span: the least and the largest distance, up to rounding.
        scratch: (2, T).
    """
    lengths, steepness = scratch[0], scratch[1]
    _measure(distances, slopes, lengths, steepness)
    mean = _mean(lengths)
    square, bar = max(mean * mean, TINY), largest(steepness, len(steepness))
    if bar < 0:
        bar = -INFINITE
    else:
        bar *= LESS * np.float32(math.exp((span[0] - span[1]) / square))
    best, top = 0, -INFINITE
    for i in range(distances.shape[0]):
        if steepness[i] >= bar:
            score = steepness[i]
            if score != 0:
                score *= np.float32(math.exp(-distances[i] / square))
            if score > top or (score == top and distances[i] < distances[best]):
                best, top = i, score
    return best, np.float32(math.exp(-distances[best] / square))


@compiled_loosely
def _offset(y: Array, words: Array, codebooks: Array, offset: Array) -> Any:
    """Fills y − c (M · width,); returns its length."""
    width = codebooks.shape[2]
    total = ZERO
    for m in range(words.shape[0]):
        word = codebooks[m, words[m]]
        own, block = offset[m * width : (m + 1) * width], y[m * width : (m + 1) * width]
        for j in range(width):
            apart = block[j] - word[j]
            own[j] = apart
            total += apart * apart
    return np.float32(math.sqrt(total))


@compiled_loosely
def _turn(
    g: Array, offset: Array, length: Any, weight: Any, strengths: Any, out: Array
) -> tuple[Any, Any]:
    """Δy = λ(1 − cos²θ)g + w⟨g, u⟩u, or λg where that would climb.

    Returns:
        The cosine of gradient and offset, and whether it was accepted.
    """
    size = max(np.float32(math.sqrt(_dot(g, g))), TINY)
    length = max(length, TINY)
    slope = _dot(g, offset) / length
    cosine = slope / size
    if slope <= 0:
        for j in range(g.shape[0]):
            out[j] = strengths[1] * g[j]
        return cosine, False
    kept = strengths[0] * max(ONE - cosine * cosine, ZERO)
    pull = weight * slope / length
    for j in range(g.shape[0]):
        out[j] = kept * g[j] + pull * offset[j]
    return cosine, True


@compiled
def snap_rows(
    rows: Rows,
    done: Done,
    span: tuple[int, int],
    k: int,
    strengths: tuple[Any, Any],
) -> None:
    """Snaps the gradient of each row to one of its k nearest codewords.

    Args:
        rows: their tables, and the codebooks.
        done: filled.
        span: the rows to do, from and up to.
        k: T, how many candidates; at most K ** M.
        strengths: λ, and the share of the gradient where snapping is rejected.
    """
    scores, y, g, codebooks = rows
    num_codebooks, size = codebooks.shape[0], codebooks.shape[1]
    entries = np.empty((num_codebooks, size), np.float32)
    inner = np.empty_like(entries)
    room = make_room(entries, k)
    lows, sums, bins = room[0][0], room[1][1], room[3]
    chosen = np.empty(sums[0].shape[0], np.uint32)
    sides = (
        np.zeros((2, len(chosen)), np.float32),
        np.zeros((2, len(chosen)), np.float32),
    )
    near, scratch = np.empty((2, k), np.float32), np.empty((2, k), np.float32)
    offset, code = np.empty(y.shape[1], np.float32), np.empty(num_codebooks, np.uint32)
    for row in range(span[0], span[1]):
        _fill_entries(scores, y[row], row, entries)
        count, reach = find(entries, k, room)
        limit = choose_smallest(sums[0], count, k, bins, chosen)
        learn(room, limit, reach)
        _fill_inner(g[row], codebooks, room[1][3], inner)
        _add_lists(entries, inner, room, sides)
        _add_up(sides, sums, chosen, (near[0], near[1]))
        slope, least = _dot(g[row], y[row]), np.sum(lows)
        for i in range(k):
            near[1, i] = slope - near[1, i]
        best, weight = _choose(near[0], near[1], (least, least + limit), scratch)
        _fill_nearest(scores, row, room, count, done[4])
        for m in range(num_codebooks):
            code[m] = word_at(room, m, chosen[best])
        done[2][row] = _offset(y[row], code, codebooks, offset)
        turned = _turn(g[row], offset, done[2][row], weight, strengths, done[0][row])
        done[1][row], done[3][row] = turned

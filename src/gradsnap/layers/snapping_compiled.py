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
    Room,
    find,
    half,
    learn,
    make_room,
    word_at,
)
from gradsnap.coders.quantizers.smallest_compiled import (
    added,
    count_within,
    limit_of_smallest,
)
from gradsnap.compiled import (
    compiled,
    compiled_in_place,
    compiled_loosely,
    compiled_strictly,
)
from gradsnap.layers.choice_compiled import choose, measure
from gradsnap.lines_compiled import in_line, rows_in_line

Array = NDArray[Any]
Rows = tuple[Array, Array, Array, Array, Array]
"""⟨y, c⟩ of blocks, (M, n, K); ‖c‖², (M, K); embeddings y and gradients, (n, M · width)
each; codebooks (M, K, width)."""
Done = tuple[Array, Array, Array, Array, Array]
"""Δy (n, M · width); cosine, distance, accepted (n,); nearest codewords (n, M)."""
Desk = tuple[Room, Array, Array, Array, Any, Array]
"""What a row is worked on with: room for its sums, its entries and ⟨g, c⟩, (M, K) each,
two sides of sums, (2, room), three lines of scratch, and a code (M,)."""

TINY = np.float32(np.finfo(np.float32).tiny)
MOST = np.float32(np.finfo(np.float32).max / 64)
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)


@compiled_strictly
def _square(row: Array) -> Any:
    total = ZERO
    for j in range(row.shape[0]):
        total += row[j] * row[j]
    return total


@compiled_strictly
def can_be_squared(first: Array, second: Array) -> Any:
    """Whether both (n, dim) are finite, and all their squares together too."""
    total = ZERO
    for row in range(first.shape[0]):
        total += _square(first[row])
        total += _square(second[row])
    return total <= MOST


@compiled_loosely
def _dot(a: Array, b: Array) -> Any:
    total = ZERO
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@compiled_in_place
def _fill_entries(rows: Rows, row: int, entries: Array) -> None:
    """Squared distances of the row's blocks to all codewords, into entries (M, K)."""
    products, norms, y = rows[0], rows[1], rows[2][row]
    width = y.shape[0] // entries.shape[0]
    for m in range(entries.shape[0]):
        along, square, own = products[m, row], norms[m], entries[m]
        block = y[m * width : (m + 1) * width]
        size = _dot(block, block)
        for word in range(own.shape[0]):
            score = HALF * square[word] - along[word]
            own[word] = max(ZERO, (score + score) + size)


@compiled_in_place
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


@compiled_in_place
def _only_zero(sums: Array, count: int) -> int:
    """Where the one zero stands among the sums; -1 if there are several."""
    if count_within(sums, count, ZERO) > 1:
        return -1
    at = 0
    while sums[at] > 0:
        at += 1
    return at


@compiled_in_place
def _fill_nearest(rows: Rows, row: int, room: Room, count: int, nearest: Array) -> None:
    """The nearest codeword of each block of the row, the first of them on ties.

    Args:
        rows: products of the row become ‖c‖²/2 − ⟨y, c⟩ where there are ties.
        row: of the rows.
        room: in which ``count`` sums of gaps were found.
        count: how many; that of the nearest codewords is zero.
        nearest: (n, M), filled at the row.
    """
    place = _only_zero(room[1][1][0], count)
    for m in range(nearest.shape[1]):
        if place >= 0:
            nearest[row, m] = word_at(room, m, place)
        else:
            scores, norms = rows[0][m, row], rows[1][m]
            for word in range(scores.shape[0]):
                scores[word] = HALF * norms[word] - scores[word]
            nearest[row, m] = _first_least(scores, room[0][1], room[0][2])


@compiled_in_place
def _fill_inner(g: Array, codebooks: Array, named: Any, inner: Array) -> None:
    """⟨g, c⟩ of the codewords that occur, blocks of g (M · width,), into (M, K)."""
    width = codebooks.shape[2]
    for m in range(codebooks.shape[0]):
        block, words = g[m * width : (m + 1) * width], named[0][m]
        for i in range(named[1][m]):
            inner[m, words[i]] = _dot(block, codebooks[m, words[i]])


@compiled_in_place
def _add_lists(inner: Array, room: Room, sides: Array) -> None:
    """⟨g, c⟩ of the parts that sums were added up from.

    Args:
        inner: ⟨g, c⟩ of the codewords that occur, (M, K).
        room: in which the sums were found.
        sides: filled, (2, room).
    """
    words, counts = room[1][0][1], room[1][0][2]
    middle = half(words.shape[0])
    for m in range(words.shape[0]):
        side = 0 if m < middle else 1
        count = counts[middle * side]
        own, of_list, along = inner[m], words[m], sides[side]
        if m == 0 or m == middle:
            for i in range(count):
                along[i] = own[of_list[i]]
        else:
            for i in range(count):
                along[i] += own[of_list[i]]


@compiled_in_place
def _add_up(sides: Array, sums: Any, count: int, along: Array) -> None:
    """⟨g, c⟩ of all the sums, (count,)."""
    left, right, lefts, rights = sides[0], sides[1], sums[1], sums[2]
    for i in range(count):
        along[i] = left[lefts[i]] + right[rights[i]]


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


@compiled_in_place
def _snap_row(
    rows: Rows, done: Done, row: int, k: int, strengths: tuple[Any, Any], desk: Desk
) -> None:
    """Snaps the gradient of one row."""
    _, _, y, g, codebooks = rows
    room, entries, inner, sides, lines, code = desk
    near, rough, offset = lines
    lows, sums = room[0][0], room[1][1]
    _fill_entries(rows, row, entries)
    count, reach = find(entries, k, room)
    _fill_nearest(rows, row, room, count, done[4])
    limit, least = limit_of_smallest(sums[0], count, k), added(lows)
    learn(room, limit, reach)
    _fill_inner(g[row], codebooks, room[1][3], inner)
    _add_lists(inner, room, sides)
    _add_up(sides, sums, count, near)
    gaps, steep = sums[0][:count], near[:count]
    mean = measure(gaps, steep, limit, least, _dot(g[row], y[row])) / np.float32(k)
    rate = ONE / max(mean * mean, TINY)
    best = choose(gaps, steep, limit, rate, rough[:count])
    weight = np.float32(math.exp(-(least + gaps[best]) * rate))
    for m in range(codebooks.shape[0]):
        code[m] = word_at(room, m, best)
    done[2][row] = _offset(y[row], code, codebooks, offset)
    turned = _turn(g[row], offset, done[2][row], weight, strengths, done[0][row])
    done[1][row], done[3][row] = turned


@compiled_in_place
def _snap_span(
    rows: Rows,
    done: Done,
    span: tuple[int, int],
    k: int,
    strengths: tuple[Any, Any],
    desk: Desk,
) -> None:
    for row in range(span[0], span[1]):
        _snap_row(rows, done, row, k, strengths, desk)


@compiled
def _make_desk(rows: Rows, k: int) -> Desk:
    num_codebooks, size = rows[1].shape
    entries = in_line(num_codebooks * size, np.float32).reshape(num_codebooks, size)
    room = make_room(entries, k)
    length = room[1][1][0].shape[0]
    sides = rows_in_line(2, length, np.float32)
    sides[:] = 0  # one codebook has one side
    lines = (
        in_line(length, np.float32),
        in_line(length, np.float32),
        in_line(rows[2].shape[1], np.float32),
    )
    code = np.empty(num_codebooks, np.uint32)
    return room, entries, np.empty_like(entries), sides, lines, code


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
    _snap_span(rows, done, span, k, strengths, _make_desk(rows, k))

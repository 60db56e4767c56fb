"""Codes by a beam, compiled: see ``beam``.

One row at a time. The sums of a partial code with all codewords of the next codebook
are one line of a table. The best of all lines are taken one by one, as in a tournament:
of each line the smallest entry of every lane (entries as many places apart as there are
lanes) is known, and the smallest of these.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled, compiled_in_place
from gradsnap.lines_compiled import copy, in_line

Array = NDArray[Any]
Lines = tuple[Array, Array, Array]
"""Sums (b, K), the least of each of their lanes (b, lanes), and of each line (b,)."""
Desk = tuple[Lines, Array, Array, Array]
"""What a row is worked on with: lines, the best sums (b,) and where they stand, and
codes before and after a codebook, (2, b, M)."""

FEW = 4
FOLD = 8
"""Lines are folded so often into lanes; a constant, so that loops unroll."""

INFINITE = np.float32(np.inf)


@compiled_in_place
def lowest(values: Array) -> Any:
    """The smallest of the values (n,)."""
    low = values[0]
    for i in range(values.shape[0]):
        low = min(low, values[i])
    return low


@compiled_in_place
def _place(values: Array, value: float, start: int, step: int) -> int:
    """Where the value stands among values (n,): the first such place, or the last."""
    at = start
    while at + step < values.shape[0] and values[at] != value:
        at += step
    return at


@compiled_in_place
def lane_minima(line: Array, least: Array, scratch: Array) -> None:
    """Fills least (lanes,) from a line (K,), by halving it; both are powers of two."""
    lanes, width = least.shape[0], line.shape[0] // 2
    if width < lanes:
        for i in range(lanes):
            least[i] = line[i]
        return
    for i in range(width):
        scratch[i] = min(line[i], line[width + i])
    while width > lanes:
        width //= 2
        for i in range(width):
            scratch[i] = min(scratch[i], scratch[width + i])
    for i in range(lanes):
        least[i] = scratch[i]


@compiled_in_place
def extended(
    pairs: Array, codes: Array, unary: Array, scores: Array, m: int, sums: Array
) -> None:
    """Fills lines (b, K): what each code becomes with every codeword of codebook m.

    Args:
        pairs: of codebook m, (M·K, K); added in the order of the codebooks.
        codes: (b, M), of which m codewords are known.
        unary: added then, (K,).
        scores: of the codes (b,), added last.
        m: which codebook; without earlier ones the one line is the unary part.
        sums: filled, (b, K).
    """
    if m == 0:
        copy(unary, sums[0])
    elif m < FEW:
        _extended_few(pairs, codes, unary, scores, m, sums)
    else:
        _extended_many(pairs, codes, unary, scores, m, sums)


@compiled_in_place
def _extended_few(
    pairs: Array, codes: Array, unary: Array, scores: Array, m: int, sums: Array
) -> None:
    """``extended`` by one to three earlier codebooks, in one pass over a line."""
    size = sums.shape[1]
    for state in range(sums.shape[0]):
        line, score, code = sums[state], scores[state], codes[state]
        first, end = pairs[code[0]], pairs[(m - 1) * size + code[m - 1]]
        if m == 1:
            for k in range(size):
                line[k] = (first[k] + unary[k]) + score
        elif m == 2:
            for k in range(size):
                line[k] = ((first[k] + end[k]) + unary[k]) + score
        else:
            other = pairs[size + code[1]]
            for k in range(size):
                line[k] = (((first[k] + other[k]) + end[k]) + unary[k]) + score


@compiled_in_place
def _extended_many(
    pairs: Array, codes: Array, unary: Array, scores: Array, m: int, sums: Array
) -> None:
    """``extended`` by four earlier codebooks or more, two in each pass."""
    size, even = sums.shape[1], m - m % 2
    for state in range(sums.shape[0]):
        line, score, code = sums[state], scores[state], codes[state]
        first, second = pairs[code[0]], pairs[size + code[1]]
        for k in range(size):
            line[k] = first[k] + second[k]
        for j in range(2, even, 2):
            first, second = (
                pairs[j * size + code[j]],
                pairs[(j + 1) * size + code[j + 1]],
            )
            for k in range(size):
                line[k] = (line[k] + first[k]) + second[k]
        if even < m:
            first = pairs[even * size + code[even]]
            for k in range(size):
                line[k] += first[k]
        for k in range(size):
            line[k] = (line[k] + unary[k]) + score


@compiled_in_place
def least_of_lines(lines: Lines) -> None:
    """Fills the least of each lane, an eighth of a line apart, and of each line."""
    sums, least, tops = lines
    lanes = least.shape[1]
    for state in range(sums.shape[0]):
        line, low = sums[state], least[state]
        if line.shape[0] < FOLD:
            low[0] = lowest(line)
        else:
            for i in range(lanes):
                value = line[i]
                for j in range(1, FOLD):
                    value = min(value, line[j * lanes + i])
                low[i] = value
        tops[state] = lowest(low)


@compiled_in_place
def take_out(line: Array, low: Array, tops: Array, state: int) -> int:
    """Takes the smallest sum out of a line (K,); returns its place."""
    lanes, value = low.shape[0], tops[state]
    lane = _place(low, value, 0, 1)
    at = _place(line, value, lane, lanes)
    line[at] = INFINITE
    least = line[lane]
    for k in range(lane + lanes, line.shape[0], lanes):
        least = min(least, line[k])
    low[lane] = least
    tops[state] = lowest(low)
    return at


@compiled_in_place
def _take(lines: Lines, values: Array, places: Array) -> None:
    """The smallest of all sums, ascending, with their places; takes them out."""
    sums, least, tops = lines
    for i in range(values.shape[0]):
        values[i] = lowest(tops)
        state = _place(tops, values[i], 0, 1)
        at = take_out(sums[state], least[state], tops, state)
        places[i] = state * sums.shape[1] + at


@compiled_in_place
def _extend(now: Array, then: Array, places: Array, m: int, size: int) -> None:
    """Codes (b, M) of m + 1 codewords, from those of m and the places taken."""
    for i in range(places.shape[0]):
        state = places[i] // size
        for j in range(m):
            then[i, j] = now[state, j]
        then[i, m] = places[i] - state * size


@compiled
def make_lines(count: int, size: int, kind: Any) -> Lines:
    """Room for as many lines."""
    lanes = max(1, size // FOLD)
    return (
        in_line(count * size, kind).reshape(count, size),
        in_line(count * lanes, kind).reshape(count, lanes),
        in_line(count, kind),
    )


@compiled
def _make_desk(count: int, num_codebooks: int, size: int, kind: Any) -> Desk:
    lines = make_lines(count, size, kind)
    kept = np.empty((2, count, num_codebooks), np.int64)
    return lines, in_line(count, kind), np.empty(count, np.int64), kept


@compiled
def beam_search(
    unaries: Array, pairs: Array, beam: int, scores: Array, codes: Array
) -> None:
    """Extends the best partial codes of each row codebook by codebook.

    Args:
        unaries: (n, M, K).
        pairs: ``earlier_pair_tables``, (M, M·K, K).
        beam: partial codes kept for each row.
        scores: (n, keep), filled, ascending.
        codes: (n, keep, M), filled.
    """
    _, num_codebooks, size = unaries.shape
    desk = _make_desk(beam, num_codebooks, size, unaries.dtype)
    for row in range(unaries.shape[0]):
        _search_row(unaries[row], pairs, scores[row], codes[row], desk)


@compiled_in_place
def _search_row(
    unary: Array, pairs: Array, scores: Array, codes: Array, desk: Desk
) -> None:
    """``beam_search`` of one row."""
    (sums, least, tops), best, places, kept = desk
    (num_codebooks, size), beam, count = unary.shape, tops.shape[0], 1
    for m in range(num_codebooks):
        now, then = kept[m % 2], kept[1 - m % 2]
        lines = (sums[:count], least[:count], tops[:count])
        extended(pairs[m], now, unary[m], best, m, lines[0])
        least_of_lines(lines)
        new = min(beam, count * size)
        if m + 1 == num_codebooks:
            new = scores.shape[0]
        _take(lines, best[:new], places[:new])
        _extend(now, then, places[:new], m, size)
        count = new
    copy(best[:count], scores)
    for i in range(count):
        copy(kept[num_codebooks % 2, i], codes[i])

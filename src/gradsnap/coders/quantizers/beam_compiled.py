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

Array = NDArray[Any]
Lines = tuple[Array, Array, Array]
"""Sums (b, K), the least of each of their lanes (b, lanes), and of each line (b,)."""

LANES = 32
INFINITE = np.float32(np.inf)


@compiled_in_place
def lowest(values: Array) -> Any:
    """The smallest of the values (n,)."""
    low = values[0]
    for i in range(values.shape[0]):
        low = min(low, values[i])
    return low


@compiled
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


@compiled
def _add_ends(
    first: Array, second: Array, unary: Array, score: float, line: Array
) -> None:
    for k in range(line.shape[0]):
        line[k] = ((first[k] + second[k]) + unary[k]) + score


@compiled
def _add_two(first: Array, second: Array, line: Array) -> None:
    for k in range(line.shape[0]):
        line[k] = first[k] + second[k]


@compiled
def _extended(
    pairs: Array, code: Array, unary: Array, score: float, line: Array
) -> None:
    """The line (K,) of what a code (m,) becomes with each codeword of codebook m.

    Args:
        pairs: of codebook m, (M·K, K); added in the order of the codebooks.
        code: m codewords.
        unary: added then, (K,).
        score: of the code, added last.
        line: filled.
    """
    size, last = line.shape[0], code.shape[0] - 1
    if last == 0:
        _add_two(pairs[code[0]], unary, line)
        for k in range(size):
            line[k] += score
        return
    if last == 1:
        _add_ends(pairs[code[0]], pairs[size + code[1]], unary, score, line)
        return
    _add_two(pairs[code[0]], pairs[size + code[1]], line)
    for j in range(2, last):
        row = pairs[j * size + code[j]]
        for k in range(size):
            line[k] += row[k]
    row = pairs[last * size + code[last]]
    for k in range(size):
        line[k] = ((line[k] + row[k]) + unary[k]) + score


@compiled
def _take(lines: Lines, values: Array, places: Array) -> None:
    """The smallest of all sums, ascending, with their places; takes them out."""
    sums, least, tops = lines
    size, lanes = sums.shape[1], least.shape[1]
    for i in range(values.shape[0]):
        best = lowest(tops)
        state = _place(tops, best, 0, 1)
        line, low = sums[state], least[state]
        lane = _place(low, best, 0, 1)
        at = _place(line, best, lane, lanes)
        values[i], places[i] = best, state * size + at
        line[at] = INFINITE
        low[lane] = line[lane]
        for k in range(lane + lanes, size, lanes):
            low[lane] = min(low[lane], line[k])
        tops[state] = lowest(low)


@compiled
def _extend(now: Array, then: Array, places: Array, m: int, size: int) -> None:
    """Codes (b, M) of m + 1 codewords, from those of m and the places taken."""
    for i in range(places.shape[0]):
        state = places[i] // size
        for j in range(m):
            then[i, j] = now[state, j]
        then[i, m] = places[i] - state * size


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
    rows, num_codebooks, size = unaries.shape
    sums = np.empty((beam, size), unaries.dtype)
    least = np.empty((beam, min(size, LANES)), unaries.dtype)
    tops, best = np.empty(beam, unaries.dtype), np.empty(beam, unaries.dtype)
    places, scratch = np.empty(beam, np.int64), np.empty(size, unaries.dtype)
    kept = np.empty((2, beam, num_codebooks), np.int64)
    for row in range(rows):
        count = 1
        for m in range(num_codebooks):
            now, then, unary = kept[m % 2], kept[1 - m % 2], unaries[row, m]
            for state in range(count):
                line = sums[state]
                if m == 0:
                    line[:] = unary
                else:
                    _extended(pairs[m], now[state, :m], unary, best[state], line)
                lane_minima(line, least[state], scratch)
                tops[state] = lowest(least[state])
            new = min(beam, count * size)
            if m + 1 == num_codebooks:
                new = scores.shape[1]
            lines = (sums[:count], least[:count], tops[:count])
            _take(lines, best[:new], places[:new])
            _extend(now, then, places[:new], m, size)
            count = new
        scores[row] = best[:count]
        codes[row] = kept[num_codebooks % 2, :count]

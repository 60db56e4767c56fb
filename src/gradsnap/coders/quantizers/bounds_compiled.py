"""Codes by a beam from lower bounds, compiled: see ``bounds``.

One row at a time, as in ``beam_compiled``. Sums of bounds are taken out in ascending
order; of each the true sum is computed, which is not less. As soon as the next bound is
not below the worst of the best true sums, these are the best of all.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.beam_compiled import (
    INFINITE,
    extended,
    least_of_lines,
    make_lines,
    take_out,
)
from gradsnap.compiled import compiled, compiled_in_place, compiled_loosely
from gradsnap.lines_compiled import copy, in_line

Array = NDArray[Any]
Words = tuple[Array, Array, Array]
"""Codewords (K, dim) and norms (K,) of one codebook, and its pairs (M·K, K)."""
States = tuple[Array, Array]
"""Codes (b, M) of the beam, and their scores (b,)."""
Lines = tuple[Array, Array, Array]
"""Sums of bounds (b, K), the least of each of their lanes, and of each line (b,)."""
Known = tuple[Array, Array, Array]
"""Entries that were computed (K,), in which stage of which row, and numbers (3,): of
that stage among all, of products so far, and of the codebook."""
Best = tuple[Array, Array, Array]
"""The best true sums, ascending, their states and their codewords."""
Sides = tuple[Array, Array, Array]
"""Codebooks (M, K, dim), norms (M, K) and pairs (M, M·K, K)."""
Desk = tuple[Lines, Array, Best, Array, Known]
"""What a row is worked on with: lines, scores (b,), the best, and codes before and
after a codebook, (2, b, M), and what is known."""


@compiled_loosely
def _inner_product(x: Array, word: Array) -> Any:
    total = x[0] - x[0]
    for i in range(x.shape[0]):
        total += x[i] * word[i]
    return total


@compiled_in_place
def _true_sum(
    x: Array, words: Words, states: States, state: int, word: int, known: Known
) -> Any:
    """What the whole inner product makes of a sum, added up as in ``extended``."""
    (codewords, norms, pairs), (codes, scores) = words, states
    entries, given, work = known
    if given[word] != work[0]:
        given[word] = work[0]
        entries[word] = norms[word] - 2 * _inner_product(x, codewords[word])
        work[1] += 1
    stages = work[2]
    if stages == 0:
        return entries[word]
    total = pairs[codes[state, 0], word]
    for j in range(1, stages):
        total += pairs[j * norms.shape[0] + codes[state, j], word]
    return (total + entries[word]) + scores[state]


@compiled_in_place
def _enter(value: Any, state: int, word: int, best: Best) -> None:
    """Puts a sum among the best in place of the worst of them."""
    values, states, words = best
    i = values.shape[0] - 1
    while i > 0 and values[i - 1] > value:
        values[i], states[i], words[i] = values[i - 1], states[i - 1], words[i - 1]
        i -= 1
    values[i], states[i], words[i] = value, state, word


@compiled_in_place
def _pick(
    x: Array, words: Words, states: States, lines: Lines, known: Known, best: Best
) -> None:
    """Finds the best true sums of all lines."""
    sums, least, tops = lines
    values = best[0]
    values[:] = INFINITE
    while True:
        state = 0
        for i in range(1, tops.shape[0]):
            if tops[i] < tops[state]:
                state = i
        if tops[state] >= values[-1]:
            return
        word = take_out(sums[state], least[state], tops, state)
        value = _true_sum(x, words, states, state, word, known)
        if value < values[-1]:
            _enter(value, state, word, best)


@compiled_in_place
def _extend(now: Array, then: Array, best: Best, m: int) -> None:
    """Codes (b, M) of m + 1 codewords, from those of m and the best."""
    values, states, words = best
    for i in range(values.shape[0]):
        for j in range(m):
            then[i, j] = now[states[i], j]
        then[i, m] = words[i]


@compiled
def _make_desk(count: int, num_codebooks: int, size: int, kind: Any) -> Desk:
    lines = make_lines(count, size, kind)
    states, places = np.empty((2, count), np.int64)
    kept = np.empty((2, count, num_codebooks), np.int64)
    known = np.empty(size, kind), np.full(size, -1, np.int64), np.zeros(3, np.int64)
    return (
        lines,
        in_line(count, kind),
        (in_line(count, kind), states, places),
        kept,
        known,
    )


@compiled
def bounded_search(
    x: Array, lower: Array, sides: Sides, beam: int, found: tuple[Array, Array]
) -> int:
    """Extends the best partial codes of each row codebook by codebook.

    Args:
        x: (n, dim).
        lower: ``Bounds.lower``, (n, M, K).
        sides: codebooks (M, K, dim), norms (M, K), and ``earlier_pair_tables`` of
            theirs, (M, M·K, K).
        beam: partial codes kept for each row.
        found: scores (n, keep), ascending, and codes (n, keep, M), filled.

    Returns:
        How many inner products were computed.
    """
    (rows, num_codebooks, size), (scores, codes) = lower.shape, found
    desk = _make_desk(beam, num_codebooks, size, lower.dtype)
    for row in range(rows):
        _search_row(x[row], lower[row], sides, (scores[row], codes[row]), desk)
    products: int = desk[4][2][1]
    return products


@compiled_in_place
def _search_row(
    x: Array, lower: Array, sides: Sides, found: tuple[Array, Array], desk: Desk
) -> None:
    """``bounded_search`` of one row."""
    (scores, codes), (sums, least, tops), before = found, desk[0], desk[1]
    (values, states, places), kept, known = desk[2], desk[3], desk[4]
    (num_codebooks, size), beam, count = lower.shape, tops.shape[0], 1
    for m in range(num_codebooks):
        now, then = kept[m % 2], kept[1 - m % 2]
        new = scores.shape[0] if m + 1 == num_codebooks else min(beam, count * size)
        copy(values[:count], before)
        known[2][0], known[2][2] = known[2][0] + 1, m  # another stage of another row
        lines = sums[:count], least[:count], tops[:count]
        extended(sides[2][m], now, lower[m], before, m, lines[0])
        least_of_lines(lines)
        best = values[:new], states[:new], places[:new]
        words = sides[0][m], sides[1][m], sides[2][m]
        _pick(x, words, (now, before), lines, known, best)
        _extend(now, then, best, m)
        count = new
    copy(values[:count], scores)
    for i in range(count):
        copy(kept[num_codebooks % 2, i], codes[i])

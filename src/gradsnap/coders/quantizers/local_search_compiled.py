"""Codes by local search, compiled: see ``local_search``.

One row at a time, whose tables stay in the cache. A row is left alone as soon as no
codebook has a better codeword, given the others: more sweeps would change nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers.beam_compiled import lane_minima, lowest
from gradsnap.compiled import compiled, compiled_in_place
from gradsnap.lines_compiled import copy, in_line

Array = NDArray[Any]
Exchanges = tuple[Array, Array, Array]
"""Of each round and codebook, (rounds, M): shift, factor, and whether it is kept."""
Room = tuple[Array, Array, Array]
"""A line of energies (K,), the least of each of its lanes, and scratch (K,)."""

LANES = 16


@compiled_in_place
def _first_lowest(room: Room) -> Any:
    """Where the smallest entry of the line stands: the first such place."""
    line, lanes, scratch = room
    lane_minima(line, lanes, scratch)
    low, at = lowest(lanes), line.shape[0]
    for lane in range(lanes.shape[0]):
        if lanes[lane] == low:
            place = lane
            while place + lanes.shape[0] < line.shape[0] and line[place] != low:
                place += lanes.shape[0]
            at = min(at, place)
    return at


@compiled_in_place
def _total(unary: Array, pairs: Array, code: Array) -> Any:
    """Energy of a code (M,): of its codewords (M, K), then of its pairs."""
    num_codebooks, size = unary.shape
    own = unary[0, code[0]]
    for m in range(1, num_codebooks):
        own += unary[m, code[m]]
    cross = own - own
    for m in range(1, num_codebooks):
        for j in range(m):
            cross += pairs[m, j * size + code[j], code[m]]
    return own + cross


@compiled_in_place
def _add_to(line: Array, row: Array) -> None:
    for k in range(line.shape[0]):
        line[k] += row[k]


@compiled_in_place
def _energies(unary: Array, pairs: Array, code: Array, m: int, line: Array) -> None:
    """The energy (K,), up to a shift, of a code (M,) with each codeword of codebook m.

    What the pairs bring is added in the order of the codebooks, the unary part last.
    """
    size, first = line.shape[0], 1 if m == 0 else 0
    if code.shape[0] == 1:
        copy(unary[0], line)
        return
    copy(pairs[m, first * size + code[first]], line)
    for j in range(first + 1, code.shape[0]):
        if j != m:
            _add_to(line, pairs[m, j * size + code[j]])
    _add_to(line, unary[m])


@compiled_in_place
def _icm(unary: Array, pairs: Array, code: Array, sweeps: int, room: Room) -> None:
    """Each codebook its best codeword given the others; the code (M,) in place."""
    num_codebooks = code.shape[0]
    settled = 0
    for step in range(sweeps * num_codebooks):
        m = step % num_codebooks
        _energies(unary, pairs, code, m, room[0])
        word = _first_lowest(room)
        settled += 1
        if word != code[m]:
            code[m] = word
            settled = 1
        if settled == num_codebooks:
            return


@compiled_in_place
def _exchange(
    code: Array, exchanges: Exchanges, turn: int, size: int, other: Array
) -> None:
    """Fills other (M,) with the code (M,), some of its codewords exchanged."""
    shifts, factors, kept = exchanges
    for m in range(code.shape[0]):
        mixed = code[m] + shifts[turn, m] + factors[turn, m] * code[m - 1]
        other[m] = code[m] if kept[turn, m] else mixed % size


@compiled
def local_search(
    unaries: Array, pairs: Array, exchanges: Exchanges, sweeps: int, codes: Array
) -> None:
    """Exchanges some codewords, runs ICM, keeps what is better; and again.

    Args:
        unaries: (n, M, K).
        pairs: ``pair_tables``, (M, M·K, K).
        exchanges: of all rounds.
        sweeps: of ICM in a round.
        codes: (n, M), improved in place.
    """
    size, kind = unaries.shape[2], unaries.dtype
    room = in_line(size, kind), in_line(min(size, LANES), kind), in_line(size, kind)
    other = np.empty(codes.shape[1], codes.dtype)
    for row in range(unaries.shape[0]):
        _search_row(unaries[row], pairs, exchanges, sweeps, codes[row], (other, room))


@compiled_in_place
def _search_row(
    unary: Array,
    pairs: Array,
    exchanges: Exchanges,
    sweeps: int,
    code: Array,
    desk: tuple[Array, Room],
) -> None:
    """``local_search`` of one row."""
    other, room = desk
    least = _total(unary, pairs, code)
    copy(code, other)
    for turn in range(exchanges[0].shape[0] + 1):
        if turn > 0:
            _exchange(code, exchanges, turn - 1, unary.shape[1], other)
        _icm(unary, pairs, other, sweeps, room)
        total = _total(unary, pairs, other)
        if total < least:
            least = total
            copy(other, code)

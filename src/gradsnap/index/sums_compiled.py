"""Table entries added up for one query, compiled, in the order of the codebooks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]

BYTE = np.uint64(255)
SHIFT_1, SHIFT_2, SHIFT_3 = np.uint64(8), np.uint64(16), np.uint64(24)
SHIFT_4, SHIFT_5, SHIFT_6 = np.uint64(32), np.uint64(40), np.uint64(48)
SHIFT_7 = np.uint64(56)
BOOK_1, BOOK_2, BOOK_3 = np.uint64(256), np.uint64(512), np.uint64(768)
BOOK_4, BOOK_5, BOOK_6 = np.uint64(1024), np.uint64(1280), np.uint64(1536)
BOOK_7 = np.uint64(1792)
"""Where codes and tables of the n-th of eight codebooks of 256 begin."""


@compiled_in_place
def _first_eight(sums: Array, codes: Array, table: Array) -> None:
    """Sums (e,) of the first eight codebooks, without passing over them twice."""
    one, two, three, four = table[0], table[1], table[2], table[3]
    five, six, seven, eight = table[4], table[5], table[6], table[7]
    for i in range(sums.shape[0]):
        total = one[codes[i, 0]] + two[codes[i, 1]]
        total = (total + three[codes[i, 2]]) + four[codes[i, 3]]
        total = (total + five[codes[i, 4]]) + six[codes[i, 5]]
        sums[i] = (total + seven[codes[i, 6]]) + eight[codes[i, 7]]


@compiled_in_place
def _first_sums(sums: Array, codes: Array, table: Array) -> int:
    """Sums (e,) of the first codebooks, eight, four or one; says of how many."""
    if codes.shape[1] >= 8:
        _first_eight(sums, codes, table)
        return 8
    first = table[0]
    if codes.shape[1] < 4:
        for i in range(sums.shape[0]):
            sums[i] = first[codes[i, 0]]
        return 1
    second, third, fourth = table[1], table[2], table[3]
    for i in range(sums.shape[0]):
        two = first[codes[i, 0]] + second[codes[i, 1]]
        sums[i] = (two + third[codes[i, 2]]) + fourth[codes[i, 3]]
    return 4


@compiled_in_place
def _four_more(sums: Array, codes: Array, table: Array, m: int) -> None:
    """Adds the entries of codebooks m to m + 3, in their order, to sums (e,)."""
    first, second, third, fourth = table[m], table[m + 1], table[m + 2], table[m + 3]
    for i in range(sums.shape[0]):
        two = (sums[i] + first[codes[i, m]]) + second[codes[i, m + 1]]
        sums[i] = (two + third[codes[i, m + 2]]) + fourth[codes[i, m + 3]]


@compiled_in_place
def sum_block(sums: Array, codes: Array, bias: Array, table: Array) -> None:
    """Sums (e,) of the entries of codes (e, M), for one query."""
    num_codebooks = codes.shape[1]
    done = _first_sums(sums, codes, table)
    while done + 4 <= num_codebooks:
        _four_more(sums, codes, table, done)
        done += 4
    for m in range(done, num_codebooks):
        last = table[m]
        for i in range(sums.shape[0]):
            sums[i] += last[codes[i, m]]
    if bias.size:
        for i in range(sums.shape[0]):
            sums[i] += bias[i]


@compiled_in_place
def eight_sum(table: Array, word: Any) -> Any:
    """The sum of one entry of each of eight codebooks of 256, table (2048,).

    The codes are the bytes of ``word``, read at once and taken apart in registers. All
    is constant and unsigned: a signed index would be checked for being negative.
    """
    total = table[word & BYTE] + table[BOOK_1 + ((word >> SHIFT_1) & BYTE)]
    total = total + table[BOOK_2 + ((word >> SHIFT_2) & BYTE)]
    total = total + table[BOOK_3 + ((word >> SHIFT_3) & BYTE)]
    total = total + table[BOOK_4 + ((word >> SHIFT_4) & BYTE)]
    total = total + table[BOOK_5 + ((word >> SHIFT_5) & BYTE)]
    total = total + table[BOOK_6 + ((word >> SHIFT_6) & BYTE)]
    return total + table[BOOK_7 + (word >> SHIFT_7)]


@compiled_in_place
def halves_sum(table: Array, block: Array, place: int) -> Any:
    """The same for up to 16 codebooks of 16, table (M, 16): half a byte is a code.

    The bytes are one of those that lie side by side in a block, uint8 (8, s): it was
    read just now, and the code itself may be far away in memory.
    """
    total = table[0, block[0, place] & 15]
    for m in range(1, table.shape[0]):
        total += table[m, (block[m >> 1, place] >> (4 * (m & 1))) & 15]
    return total


@compiled_in_place
def row_sum(codes: Array, bias: Array, at: int, table: Array) -> Any:
    """The distance of the item at a position by the table (M, K) of a query."""
    total = table[0, codes[at, 0]]
    for m in range(1, codes.shape[1]):
        total += table[m, codes[at, m]]
    if bias.size:
        total += bias[at]
    return total


@compiled_in_place
def sum_at(columns: tuple[Any, ...], at: int, table: Array) -> Any:
    """The same of ``Columns``."""
    return row_sum(columns[0], columns[1], at, table)

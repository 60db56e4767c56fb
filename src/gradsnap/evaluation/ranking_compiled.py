"""The inner loops of evaluation, compiled for CPUs.

Needs the extra ``fast`` (numba); plain torch does the same where it is absent.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled

Array = NDArray[Any]

SIGN = np.int32(-(2**31))
FIRST = np.uint32(2**31)
"""The bit that turns signed order into unsigned order."""
DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
LAST_DIGIT = np.uint32(DIGITS - 1)
ITEM_BLOCK = 2048
"""Hashes whose distances to one query are held at once, in the fastest cache."""


@compiled
def binary_keys(bits: Array, relevant: Array, keys: Array) -> None:
    """Twice the bits, less 2³¹, plus 1 where not relevant; all (q, n), int32."""
    for row in range(bits.shape[0]):
        for i in range(bits.shape[1]):
            low = np.int32(not relevant[row, i])
            keys[row, i] = ((bits[row, i] << np.int32(1)) | low) ^ SIGN


@compiled
def sort_rows(keys: Array, room: Array) -> None:
    """Sorts each row of keys, int32 (q, n), in place; room is uint32 (n,).

    By eleven bits at a time from the lowest on. A digit that all keys share is skipped.
    """
    counts = np.empty((3, DIGITS), np.int64)
    for row in range(keys.shape[0]):
        own = keys[row].view(np.uint32)
        _count_digits(own, counts)
        source, target = own, room
        for digit in range(3):
            if _starts_of_digits(counts[digit]) == len(own):
                continue
            _place(source, target, counts[digit], np.uint32(DIGIT_BITS * digit))
            source, target = target, source
        for i in range(len(own)):
            own[i] = source[i] ^ FIRST


@compiled
def _count_digits(own: Array, counts: Array) -> None:
    """How often each digit occurs (3, DIGITS) in keys (n,), whose sign is turned."""
    counts[:] = 0
    for i in range(len(own)):
        key = own[i] ^ FIRST
        own[i] = key
        counts[0, key & LAST_DIGIT] += 1
        counts[1, (key >> np.uint32(DIGIT_BITS)) & LAST_DIGIT] += 1
        counts[2, key >> np.uint32(2 * DIGIT_BITS)] += 1


@compiled
def _starts_of_digits(counts: Array) -> int:
    """Makes of counts (DIGITS,) where each begins; returns the largest count."""
    total, most = 0, 0
    for digit in range(DIGITS):
        count = counts[digit]
        counts[digit] = total
        total += count
        most = max(most, count)
    return most


@compiled
def _place(source: Array, target: Array, starts: Array, shift: np.uint32) -> None:
    """Puts keys (n,) in the order of one digit; starts (DIGITS,) become ends."""
    for i in range(len(source)):
        digit = (source[i] >> shift) & LAST_DIGIT
        target[starts[digit]] = source[i]
        starts[digit] += 1


@compiled
def line_sums(
    groups: tuple[Array, Array, Array, Array, Array], harmonic: Array, sums: Array
) -> None:
    """``metrics._line_sums`` of starts, places, sizes, hits and hits before, (g,)."""
    starts, places, sizes, hits, before = groups
    for g in range(len(starts)):
        start = starts[g]
        rest = harmonic[start + places[g]] - harmonic[start]
        slope = (hits[g] - 1) / max(sizes[g] - 1, 1)
        line = slope * places[g] + (before[g] + 1 - slope * (1 + start)) * rest
        sums[g] = hits[g] / max(sizes[g], 1) * line


@compiled
def groups_of_rows(keys: Array, shift: int) -> tuple[Array, Array]:
    """Groups that hold hits, of ascending keys (q, m).

    Returns:
        int64 (5, g): rows, starts, sizes, hits, hits before; and gains, float64 (g,).
    """
    queries, width = keys.shape
    mask = (1 << shift) - 1
    room = 0
    for row in range(queries):
        for i in range(width):
            room += (keys[row, i] & mask) != mask
    found = np.empty((5, room), np.int64)
    gains = np.empty(room, np.float64)
    count = 0
    for row in range(queries):
        before = 0
        i = 0
        while i < width:
            if (keys[row, i] & mask) == mask:  # hits lie first among their ties
                i += 1
                continue
            start, hits, gain = i, 0, 0
            level = keys[row, i] >> shift
            while i < width and keys[row, i] >> shift == level:
                grade = mask - (keys[row, i] & mask)
                hits += grade > 0
                gain += (1 << grade) - 1
                i += 1
            found[0, count] = row
            found[1, count] = start
            found[2, count] = i - start
            found[3, count] = hits
            found[4, count] = before
            gains[count] = gain
            before += hits
            count += 1
    return found[:, :count], gains[:count]


@compiled
def _set_bits(x: np.uint64) -> np.uint64:
    """How many bits of a 64-bit word are set; compilers make one instruction of it."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + (
        (x >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def _distances(query: Array, words: Array, found: Array) -> None:
    """Hamming distances of one query (w,) to words (w, n): found (n,), int32."""
    for i in range(words.shape[1]):
        found[i] = _set_bits(query[0] ^ words[0, i])
    for w in range(1, words.shape[0]):
        for i in range(words.shape[1]):
            found[i] += _set_bits(query[w] ^ words[w, i])


@compiled
def _grades(
    label: np.int64, labels: Array, several: bool, top: int, found: Array
) -> None:
    """Whether a label equals each of (n,), or how many bits they share, up to top."""
    if several:
        for i in range(len(labels)):
            found[i] = min(np.int64(_set_bits(np.uint64(label & labels[i]))), top)
    else:
        for i in range(len(labels)):
            found[i] = label == labels[i]


@compiled
def count_levels(
    queries: tuple[Array, Array],
    items: tuple[Array, Array],
    several: bool,
    counts: Array,
) -> None:
    """Adds up how many items of each grade lie at each Hamming distance.

    Args:
        queries: hashes as 64-bit words (q, w), and labels int64 (q,).
        items: hashes as 64-bit words (w, n), and labels int64 (n,).
        several: labels are sets of bits; a grade is how many are shared, as far as
            ``counts`` has room for grades.
        counts: int64 (q, distances, grades), added to.
    """
    hashes, labels = queries
    words, theirs = items
    distances = np.empty(ITEM_BLOCK, np.int32)
    grades = np.empty(ITEM_BLOCK, np.int32)
    top = counts.shape[2]
    for first in range(0, words.shape[1], ITEM_BLOCK):
        last = min(first + ITEM_BLOCK, words.shape[1])
        for row in range(len(hashes)):
            _distances(hashes[row], words[:, first:last], distances)
            _grades(labels[row], theirs[first:last], several, top - 1, grades)
            table = counts[row].reshape(-1)
            for i in range(last - first):
                table[distances[i] * top + grades[i]] += 1


@compiled
def add_entries(tables: Array, codes: Array, found: Array) -> None:
    """Adds to found (q, n) the entries of tables (q, M, K) named by codes (M, n)."""
    for first in range(0, codes.shape[1], ITEM_BLOCK):
        last = min(first + ITEM_BLOCK, codes.shape[1])
        for row in range(len(tables)):
            for m in range(len(codes)):
                table, words = tables[row, m], codes[m, first:last]
                line = found[row, first:last]
                for i in range(last - first):
                    line[i] += table[words[i]]

"""Scans of codes, compiled: what ``scanning`` does in plain torch, bit for bit.

Needs the extra ``fast`` (numba). ``scan_group`` reads each code once for up to 32
queries, whose table entries lie side by side, so that one instruction adds for eight
of them. ``scan_lists`` takes one query at a time, over lists of its own.

Results are kept in heaps whose root is the worst: larger distance, then larger id.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled

Array = NDArray[Any]

BLOCK = 64
"""Codes added up before they are compared with the worst results."""

LONG_BLOCK = 256
"""The same for a query alone."""

BYTE = np.uint64(255)
SHIFT_1, SHIFT_2, SHIFT_3 = np.uint64(8), np.uint64(16), np.uint64(24)
SHIFT_4, SHIFT_5, SHIFT_6 = np.uint64(32), np.uint64(40), np.uint64(48)
SHIFT_7 = np.uint64(56)
BOOK_1, BOOK_2, BOOK_3 = np.uint64(256), np.uint64(512), np.uint64(768)
BOOK_4, BOOK_5, BOOK_6 = np.uint64(1024), np.uint64(1280), np.uint64(1536)
BOOK_7 = np.uint64(1792)
"""Where codes and tables of the n-th of eight codebooks of 256 begin."""


@compiled
def _key(ids32: Array, ids64: Array, first: int, at: int) -> Any:
    """The id of the item at a position; implicit where there are no ids."""
    if ids32.size:
        return np.int64(ids32[at])
    if ids64.size:
        return np.int64(ids64[at])
    return np.int64(first + at)


@compiled
def _push(distances: Array, keys: Array, places: Array, new: tuple[Any, ...]) -> None:
    """Replaces the root of a heap (k,) by ``new`` (distance, key, place) and sifts."""
    distance, key, place = new
    size = distances.shape[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            distances[other] > distances[child]
            or (distances[other] == distances[child] and keys[other] > keys[child])
        ):
            child = other
        if distances[child] < distance or (
            distances[child] == distance and keys[child] < key
        ):
            break
        distances[at] = distances[child]
        keys[at] = keys[child]
        places[at] = places[child]
        at = child
    distances[at] = distance
    keys[at] = key
    places[at] = place


@compiled
def _offer(
    heap: tuple[Array, Array, Array], columns: tuple[Any, ...], value: Any, at: int
) -> None:
    """Puts an item into a heap if it is nearer than the root, or as near and lower."""
    distances, keys, places = heap
    _, _, ids32, ids64, first, base = columns
    value = max(value, np.float32(0))
    if value > distances[0]:
        return
    key = _key(ids32, ids64, first, at)
    if value < distances[0] or key < keys[0]:
        _push(distances, keys, places, (value, key, np.int64(base + at)))


@compiled
def _add_one(sums: Array, codes: Array, table: Array, m: int) -> None:
    """Adds the entries (K, W) of codebook m to sums (e, W)."""
    for i in range(sums.shape[0]):
        word = codes[i, m]
        for j in range(table.shape[1]):
            sums[i, j] += table[word, j]


@compiled
def _add_two(sums: Array, codes: Array, tables: Array, m: int) -> None:
    """Adds the entries of codebooks m and m + 1, which spares a pass over the sums."""
    left, right = tables[m], tables[m + 1]
    for i in range(sums.shape[0]):
        word, next_word = codes[i, m], codes[i, m + 1]
        for j in range(left.shape[1]):
            sums[i, j] = (sums[i, j] + left[word, j]) + right[next_word, j]


@compiled
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
        columns: codes (n, M), bias (n,) or empty, ids as uint32 or int64 (n,) or both
            empty, the first implicit id, and the place of item 0.
        ranges: positions to scan, (r, 2), half-open.
        tables: float32 (M, K, W).
        heaps: distances, keys and places, (W, k) each, changed in place.
    """
    codes, bias = columns[0], columns[1]
    distances, keys, places = heaps
    width = tables.shape[2]
    worst = distances[:, 0].copy()
    sums = np.empty((BLOCK, width), np.float32)
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
                        _offer(heap, columns, sums[i, j], start + i)
                        worst[j] = distances[j, 0]


@compiled
def _first_eight(sums: Array, codes: Array, table: Array) -> None:
    """Sums (e,) of the first eight codebooks, without passing over them twice."""
    one, two, three, four = table[0], table[1], table[2], table[3]
    five, six, seven, eight = table[4], table[5], table[6], table[7]
    for i in range(sums.shape[0]):
        total = one[codes[i, 0]] + two[codes[i, 1]]
        total = (total + three[codes[i, 2]]) + four[codes[i, 3]]
        total = (total + five[codes[i, 4]]) + six[codes[i, 5]]
        sums[i] = (total + seven[codes[i, 6]]) + eight[codes[i, 7]]


@compiled
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


@compiled
def _four_more(sums: Array, codes: Array, table: Array, m: int) -> None:
    """Adds the entries of codebooks m to m + 3, in their order, to sums (e,)."""
    first, second, third, fourth = table[m], table[m + 1], table[m + 2], table[m + 3]
    for i in range(sums.shape[0]):
        two = (sums[i] + first[codes[i, m]]) + second[codes[i, m + 1]]
        sums[i] = (two + third[codes[i, m + 2]]) + fourth[codes[i, m + 3]]


@compiled
def _sum_block(sums: Array, codes: Array, bias: Array, table: Array) -> None:
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


@compiled
def _eight_sum(table: Array, word: Any) -> Any:
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


@compiled
def scan_words(
    columns: tuple[Any, ...],
    words: Array,
    alive: Array,
    spans: Array,
    tables: Array,
    heaps: tuple[Any, ...],
) -> None:
    """``scan_lists`` for codes of eight codebooks of 256.

    Args:
        columns: as for ``scan_group``; without bias.
        words: the codes, eight bytes to a number, uint64 (n,).
        alive: which items count, (n,) bool, or empty for all.
        spans: start, stop and table of each list of each query, (q, p, 3).
        tables: float32 (t, 2048).
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    distances, keys, places = heaps
    for q in range(spans.shape[0]):
        heap = (distances[q], keys[q], places[q])
        worst = heap[0][0]
        for p in range(spans.shape[1]):
            table = tables[spans[q, p, 2]]
            for at in range(spans[q, p, 0], spans[q, p, 1]):
                total = _eight_sum(table, words[at])
                if total <= worst and (alive.size == 0 or alive[at]):
                    _offer(heap, columns, total, at)
                    worst = heap[0][0]


@compiled
def _scan_range(
    columns: tuple[Any, ...],
    alive: Array,
    span: tuple[int, int],
    table: Array,
    heap: tuple[Array, Array, Array],
) -> None:
    """Scans positions start…stop for one query with its table (M, K)."""
    worst = heap[0][0]
    buffer = np.empty(LONG_BLOCK, np.float32)
    for start in range(span[0], span[1], LONG_BLOCK):
        count = min(LONG_BLOCK, span[1] - start)
        sums = buffer[:count]
        stop = start + count
        _sum_block(sums, columns[0][start:stop], columns[1][start:stop], table)
        for i in range(count):
            if sums[i] <= worst and (alive.size == 0 or alive[start + i]):
                _offer(heap, columns, sums[i], start + i)
                worst = heap[0][0]


@compiled
def scan_lists(
    columns: tuple[Any, ...],
    alive: Array,
    spans: Array,
    tables: Array,
    heaps: tuple[Any, ...],
) -> None:
    """Scans other items for each query.

    Args:
        columns: as for ``scan_group``.
        alive: which items count, (n,) bool, or empty for all.
        spans: start, stop and table of each list of each query, (q, p, 3).
        tables: float32 (t, M, K).
        heaps: distances, keys and places, (q, k) each, changed in place.
    """
    distances, keys, places = heaps
    for q in range(spans.shape[0]):
        heap = (distances[q], keys[q], places[q])
        for p in range(spans.shape[1]):
            span = (spans[q, p, 0], spans[q, p, 1])
            if span[0] < span[1]:
                _scan_range(columns, alive, span, tables[spans[q, p, 2]], heap)


@compiled
def _sort(distances: Array, keys: Array, places: Array) -> None:
    """A heap (k,) to ascending order: its root, the worst, goes last, and so on."""
    for last in range(distances.shape[0] - 1, 0, -1):
        worst, key, place = distances[0], keys[0], places[0]
        moved = (distances[last], keys[last], places[last])
        _push(distances[:last], keys[:last], places[:last], moved)
        distances[last], keys[last], places[last] = worst, key, place


@compiled
def sort_heaps(heaps: tuple[Any, ...]) -> None:
    """Heaps (q, k) to ascending order by distance, then key, in place."""
    distances, keys, places = heaps
    for q in range(distances.shape[0]):
        _sort(distances[q], keys[q], places[q])


@compiled
def _lowest(values: Array) -> Any:
    """The smallest of some values, one instruction for eight of them."""
    low = values[0]
    for i in range(values.shape[0]):
        low = min(low, values[i])
    return low


@compiled
def smallest(scores: Array, values: Array, chosen: Array) -> None:
    """The smallest scores of each row, ascending, equal ones by their column.

    Args:
        scores: float (q, n).
        values: filled with the scores, (q, k) with k ≤ n.
        chosen: filled with the columns, int64 (q, k).
    """
    for q in range(scores.shape[0]):
        row, value, column = scores[q], values[q], chosen[q]
        value[:] = np.inf
        column[:] = scores.shape[1]
        worst = value[0]
        for start in range(0, row.shape[0], BLOCK):
            part = row[start : start + BLOCK]
            if _lowest(part) >= worst:
                continue
            for i in range(part.shape[0]):
                if part[i] < worst:
                    at = np.int64(start + i)
                    _push(value, column, column, (part[i], at, at))
                    worst = value[0]
        _sort(value, column, column)

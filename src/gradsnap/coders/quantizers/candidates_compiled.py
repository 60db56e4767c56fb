"""The k smallest sums, compiled: what ``candidates.smallest_sums`` does, on a CPU.

One row at a time: a limit on the sum is guessed from how near the row's nearest
codewords are, and how far that reached in the rows before; codewords below it make
short lists, which are folded two by two. Where the lists would not be short, they are
added up one after the other, with a limit that is lowered on the way. A wrong guess
costs time, never exactness.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.quantizers import folds_compiled as folds
from gradsnap.coders.quantizers.appending_compiled import BLOCK
from gradsnap.coders.quantizers.partial_sums_compiled import Partial, fold_one_by_one
from gradsnap.coders.quantizers.shortlists_compiled import LANES, look
from gradsnap.coders.quantizers.smallest_compiled import (
    BINS,
    TINY,
    order_smallest,
    settle,
)
from gradsnap.compiled import compiled, compiled_in_place
from gradsnap.lines_compiled import in_line, rows_in_line

Array = NDArray[Any]
Room = tuple[Any, Any, Any, Any, Any]
"""What rows need to be searched, made once for all of them: see ``make_room``."""

INFINITE = np.float32(np.inf)
GUESS = np.float32(1.1)
RETRY = np.float32(1.05)
EIGHT, EIGHTH = np.float32(8), np.float32(0.125)
HALF, ONE = np.float32(0.5), np.float32(1)
"""The part of the bound within which k sums often lie, and all of it."""
WIDER = np.float32(1.4)
"""Rows seldom need so many times the part of the bound that others did."""
FEW_MORE, MANY_MORE = np.float32(1.2), np.float32(1.6)
"""So many times k sums are aimed at, first and then: estimates err, and what falls just
short is far cheaper to fold again than to add up one by one."""

fold_within, half, note = folds.fold_within, folds.half, folds.note


@compiled_in_place
def _next_guess(guess: Any, found: int, k: int, attempt: int) -> Any:
    if attempt > 3 or guess <= 0:
        return INFINITE
    return guess * RETRY * np.float32(k / max(found, 1)) ** EIGHTH


@compiled_in_place
def _next_share(share: float, limit: float, reach: float) -> Any:
    """The share of the reach that the next row may need, from one row more."""
    if reach <= 0 or limit <= 0:
        return share
    found = limit / reach
    return found if share == INFINITE else share + (found - share) / EIGHT


@compiled_in_place
def _trace(partial: Partial, count: int, room: Any) -> None:
    """Puts sums that were added up one by one where folded lists have theirs."""
    found, parents, last_words = partial
    lists, sums, _, named = room
    words, num_codebooks = lists[1], lists[1].shape[0]
    for i in range(count):
        sums[0][i] = found[num_codebooks, i]
        sums[1][i] = i
        sums[2][i] = i
        at = i
        for m in range(num_codebooks, 0, -1):
            words[m - 1, i] = last_words[m, at]
            at = parents[m, at]
    for m in range(num_codebooks):
        lists[2][m] = count
        note(named, m, words[m], count)


@compiled_in_place
def _wide(num_codebooks: int, k: int) -> int:
    """So many codewords of each codebook make k codes."""
    wide = 1
    while wide**num_codebooks < k:
        wide += 1
    return wide


@compiled
def make_room(entries: Array, k: int) -> Room:
    """Room to search rows of entries (M, K) for the k smallest sums, one after another.

    Returns:
        To look at a row (least entries, lanes, scratch), to fold lists (lists, sums,
        bins, codewords that occur), to add up one by one (partial sums, short lists),
        bins, and the shares of the reach and of the bound that the rows before needed,
        with the bound of the last row.
    """
    num_codebooks, size = entries.shape
    kind = entries.dtype
    lanes = in_line(min(size, LANES), kind)
    looks = (np.zeros(num_codebooks, kind), lanes, in_line(size, kind))
    few, many = min(size, k), 4 * k + 64
    room = max(size, many) + BLOCK
    lists = (
        rows_in_line(num_codebooks, room, kind),
        rows_in_line(num_codebooks, room, np.uint32),
        np.zeros(num_codebooks, np.int32),
    )
    places = rows_in_line(3, room, np.uint32)  # unsigned: no place counts from the end
    sums = (in_line(room, kind), places[0], places[1])
    histograms = np.empty((3, 2 * folds.COARSE), np.float32)
    ends, by_bin = np.empty(folds.BINS + 2, np.uint32), in_line(room, kind)
    bins = (histograms, ends, places[2], by_bin)
    partial = (
        np.empty((num_codebooks + 1, many), kind),
        np.empty((num_codebooks + 1, many), np.int32),
        np.empty((num_codebooks + 1, many), np.int32),
    )
    words = np.empty(few, np.int32), np.empty(size + 1, np.int32)
    long = (partial, (np.empty(few, kind), words[0], words[1]))
    share = np.full(3, INFINITE, kind)
    named = (rows_in_line(num_codebooks, room, np.uint32), lists[2].copy())
    return looks, (lists, sums, bins, named), long, np.empty(BINS, np.int32), share


@compiled_in_place
def _fold_long(entries: Array, guess: Any, k: int, room: Room) -> int:
    """Finds the k smallest sums however many there are, from a guess at the limit."""
    lows, near, (partial, short), bins = room[0][0], room[1], room[2], room[3]
    count, attempt = 0, 0
    while count < k:
        count = fold_one_by_one(partial, (entries, lows), short, guess, k, bins)
        attempt += 1
        guess = _next_guess(guess, count, k, attempt)
    _trace(partial, count, near)
    return count


@compiled_in_place
def find(entries: Array, k: int, room: Room) -> tuple[int, Any]:
    """Finds the k smallest sums of entries (M, K), and some more, in no order.

    They are left in the room, as ``fold_within`` leaves them, less the least entries.

    Returns:
        How many, and the reach of the row.
    """
    (lows, lanes, scratch), share = room[0], room[4]
    wide = _wide(entries.shape[0], k)
    short = entries.shape[0] > 1 and wide <= lanes.shape[0]
    reach, bound = look(entries, lows, lanes, scratch, wide if short else 1)
    share[2] = bound
    if short and bound > TINY:
        likely = np.float32(min(WIDER * share[1], HALF))  # of tables in any precision
        for part, more in ((likely, FEW_MORE), (HALF, MANY_MORE), (ONE, MANY_MORE)):
            wanted = more * np.float32(k)
            count = fold_within((entries, lows), part * bound, k, wanted, room[1])
            if count >= k:
                return count, reach
    guess = share[0] * GUESS * reach if reach > 0 else INFINITE
    return _fold_long(entries, guess, k, room), reach


@compiled_in_place
def learn(room: Room, limit: float, reach: float) -> None:
    """Lets the next row's guess follow the limit that this one needed."""
    share = room[4]
    share[0] = _next_share(share[0], limit, reach)
    share[1] = _next_share(share[1], limit, share[2])


@compiled_in_place
def word_at(room: Room, m: int, place: int) -> int:
    """The codeword of codebook m in the sum at the place."""
    lists, sums = room[1][0], room[1][1]
    behind = sums[1] if m < half(lists[1].shape[0]) else sums[2]
    return lists[1][m, behind[place]]  # type: ignore[no-any-return]


@compiled_in_place
def _write(
    room: Room, order: Array, tables: Array, distances: Array, codes: Array
) -> None:
    """The codes of the best sums, and their entries added up."""
    for m in range(codes.shape[1]):
        for i in range(codes.shape[0]):
            codes[i, m] = word_at(room, m, order[i])
    for i in range(distances.shape[0]):
        distances[i] = tables[0, codes[i, 0]]
    for m in range(1, codes.shape[1]):
        for i in range(distances.shape[0]):
            distances[i] += tables[m, codes[i, m]]


@compiled_in_place
def _search(
    tables: Array, found: tuple[Array, Array], order: Array, room: Room
) -> None:
    """Fills distances (n, k) and codes (n, k, M) for entries (n, M, K)."""
    distances, codes = found
    sums, bins, k = room[1][1][0], room[3], distances.shape[1]
    for row in range(tables.shape[0]):
        count, reach = find(tables[row], k, room)
        order_smallest(sums, count, k, bins, order)
        learn(room, sums[order[k - 1]], reach)
        _write(room, order, tables[row], distances[row], codes[row])
        settle(distances[row], codes[row])


@compiled
def smallest_sums(tables: Array, k: int, distances: Array, codes: Array) -> None:
    """The k smallest sums of one entry per codebook, for each row, ascending.

    Args:
        tables: (n, M, K), entries.
        k: how many; at most K ** M.
        distances: (n, k), filled.
        codes: (n, k, M), filled.
    """
    if tables.shape[0] > 0:
        room = make_room(tables[0], k)
        order = np.empty(room[1][1][0].shape[0], np.uint32)
        _search(tables, (distances, codes), order, room)

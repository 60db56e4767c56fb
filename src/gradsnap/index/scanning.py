"""Asymmetric distances of stored codes: table entries added up, the best kept.

One definition, two engines: a compiled kernel, and plain torch where numba is missing.
Both add in float32 in the order of the codebooks, so they agree to the bit.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gradsnap.coders.tables import Tables, sums_of_all
from gradsnap.compiled import kernels, spread
from gradsnap.index.best import Best
from gradsnap.index.columns import Columns

Array = NDArray[Any]

GROUP = 32
"""Queries that share one pass over the codes."""

FEWEST = 8
"""Fewer queries are scanned one by one: a group would mostly be padding."""

FEWEST_OF_WORDS = 12
"""The same for codes that are read as one number, which one query scans faster."""

CACHED = 2**16
"""Codes that a core's own cache holds beside the tables."""
LARGE = 2**22
"""Bytes of codes beyond which reading them in parts pays."""

FAST_SIZE = 16
"""Codewords a codebook that fit a register, so that fast-scan can add."""

FEW_ALIVE = 0.3
"""Where a smaller share of items counts, each is asked before it is added up."""

TORCH_ROWS = 16_384
"""Codes the plain engine adds up at once."""

ALL = np.empty(0, dtype=bool)
"""Every item counts."""


class Lists(NamedTuple):
    """The lists each query looks into.

    Several ranges that every query looks into are lists too.
    """

    numbers: Array
    """Of each query, int64 (q, p)."""
    bounds: Array
    """Where lists begin and end, int64, read-only."""
    step: int = 1
    """List l is ``bounds[step * l]`` up to ``bounds[step * l + 1]``."""

    @classmethod
    def of_ranges(cls, ranges: Array, queries: int) -> "Lists":
        """The same ranges (r, 2), half-open, for so many queries."""
        numbers = np.broadcast_to(np.arange(len(ranges)), (queries, len(ranges)))
        bounds = np.ascontiguousarray(ranges).reshape(-1)
        bounds.flags.writeable = False
        return cls(np.ascontiguousarray(numbers), bounds, 2)

    def span(self, number: int) -> tuple[int, int]:
        """Where a list begins and ends."""
        at = self.step * number
        return int(self.bounds[at]), int(self.bounds[at + 1])


def kernel() -> ModuleType | None:
    """The compiled scans for groups of queries, where numba is installed."""
    return kernels("gradsnap.index.scanning_compiled")


def list_kernel() -> ModuleType | None:
    """The compiled scans for one query at a time, where numba is installed."""
    return None if kernel() is None else kernels("gradsnap.index.lists_compiled")


def float_tables(tables: Tables, constant: float) -> Tensor:
    """Tables (q, M, K) in float32 whose sums are distances: constants are in them."""
    entries = tables.entries.float().cpu()
    shift = tables.offsets + constant if constant else tables.offsets
    if shift.count_nonzero():
        entries = entries.clone()
        entries[:, 0] += shift.float().cpu()[:, None]
    whole: Tensor = entries.contiguous()
    return whole


def scan_all(columns: Columns, ranges: Array, entries: Tensor, best: Best) -> None:
    """Scans the same ranges (r, 2) for every query.

    Args:
        columns: the segment.
        ranges: positions, half-open and ascending.
        entries: tables float32 (q, M, K).
        best: heaps of the q queries, changed in place.
    """
    if len(ranges) == 0 or len(entries) == 0:
        return
    compiled = kernel()
    if compiled is None:
        _scan_all_plain(columns, ranges, entries, best)
    elif _one_by_one(columns, entries):
        several = len(entries) >= FEWEST
        parts = list(_parts(columns.codes, ranges)) if several else [ranges]
        lists = [Lists.of_ranges(part, len(entries)) for part in parts]
        _scan_lists(columns, (ALL, False), lists, entries, best)
    else:

        def work(start: int) -> None:
            group = entries[start : start + GROUP]
            _scan_group(compiled, columns, ranges, group, best, start)

        spread(work, range(0, len(entries), GROUP))


def _parts(codes: Array, ranges: Array) -> Iterator[Array]:
    """Ranges (r, 2) of codes (n, M), in parts that a core's own cache holds if large.

    Queries one after the other then read what the first of them brought from memory.
    """
    start, stop = ranges[0].tolist()
    if len(ranges) > 1 or (stop - start) * codes.shape[1] <= LARGE:
        yield ranges
        return
    for at in range(start, stop, CACHED):
        yield np.array([[at, min(at + CACHED, stop)]])


def _one_by_one(columns: Columns, entries: Tensor) -> bool:
    """Whether queries with tables (q, M, K) do better without sharing a pass.

    They do where they are few, and, however many, where one query looks up 64 codes at
    once (``wide_compiled``) by bytes, in bounds for entries that are not negative.
    """
    if len(entries) < (FEWEST_OF_WORDS if columns.words.size else FEWEST):
        return True
    wide = kernels("gradsnap.index.wide_compiled")
    return wide is not None and wide.HAS_BYTES and _fits(wide, columns, entries)


def _fits(wide: ModuleType, columns: Columns, entries: Tensor) -> bool:
    """Whether 64 codes are looked up at once in tables (q, M, K)."""
    (items, books), size = columns.codes.shape, entries.shape[2]
    looked_up = books in wide.BOOKS and FAST_SIZE < size <= wide.ENTRIES
    plain = columns.codes.dtype == np.uint8 and columns.bias.size == 0
    return looked_up and plain and items >= wide.WIDE and bool(entries.min() >= 0)


def scan_own(
    columns: Columns,
    alive: Array,
    lists: Lists,
    tables: Tensor,
    best: Best,
    share: float = 1.0,
) -> None:
    """Scans each query's own lists.

    Args:
        columns: the segment.
        alive: which items count, bool (n,), or empty for all.
        lists: of the q queries, p each.
        tables: float32 (t, M, K); one a query, or one for each of its lists.
        best: heaps of the q queries, changed in place.
        share: of the items that count, 0 to 1.
    """
    if list_kernel() is None:
        _scan_own_plain(columns, alive, lists, tables, best)
    else:
        _scan_lists(columns, (alive, share < FEW_ALIVE), [lists], tables, best)


def _scan_lists(
    columns: Columns,
    counted: tuple[Array, bool],
    parts: Sequence[Lists],
    tables: Tensor,
    best: Best,
) -> None:
    """Scans lists of each query, part by part, some queries on each thread.

    Args:
        columns: the segment.
        counted: which items count, bool (n,), or empty for all; and whether few do.
        parts: lists of the q queries, one after the other.
        tables: float32 (t, M, K).
        best: heaps of the q queries, changed in place.
    """
    compiled: Any = list_kernel()
    queries, threads = len(parts[0].numbers), torch.get_num_threads()
    steps = queries if threads == 1 else -(-queries // (4 * threads))
    each, entries = len(tables) // queries, tables.numpy()

    def work(start: int) -> None:
        some, heaps = slice(start, start + steps), best.part(start, start + steps)
        own = entries[start * each : (start + steps) * each]
        for part in parts:
            given = tuple(part[1:]), part.numbers[some], own, tuple(heaps)
            compiled.scan_lists(tuple(columns), counted, *given)

    spread(work, range(0, queries, steps))


def _scan_group(
    compiled: ModuleType,
    columns: Columns,
    ranges: Array,
    entries: Tensor,
    best: Best,
    start: int,
) -> None:
    """One pass of the kernel for at most ``GROUP`` queries, padded to eights."""
    rows = len(entries)
    padded = functional.pad(entries, (0, 0, 0, 0, 0, -rows % 8))
    tables = padded.permute(1, 2, 0).contiguous().numpy()  # (M, K, W)
    heaps = Best.empty(len(padded), best.distances.shape[1])
    heaps.distances[rows:] = -np.inf  # the padding finds nothing
    for own, given in zip(heaps, best.part(start, start + rows), strict=True):
        own[:rows] = given
    compiled.scan_group(tuple(columns), ranges, tables, tuple(heaps))
    for own, given in zip(heaps, best.part(start, start + rows), strict=True):
        given[:] = own[:rows]


# --- the same in plain torch ----------------------------------------------------


def _scan_all_plain(
    columns: Columns, ranges: Array, entries: Tensor, best: Best
) -> None:
    positions = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    for part in np.array_split(positions, -(-len(positions) // TORCH_ROWS)):
        _offer(columns, part, entries, best, range(len(entries)))


def _scan_own_plain(
    columns: Columns, alive: Array, lists: Lists, tables: Tensor, best: Best
) -> None:
    each = len(tables) // max(1, len(lists.numbers))  # 1, or one for each list
    for query, numbers in enumerate(lists.numbers):
        own = tables[query * each : (query + 1) * each].expand(len(numbers), -1, -1)
        for number, table in zip(numbers, own, strict=True):
            start, stop = lists.span(number)
            positions = np.arange(start, stop)
            if alive.size:
                positions = positions[alive[start:stop]]
            _offer(columns, positions, table[None], best, range(query, query + 1))


def _offer(
    columns: Columns, positions: Array, entries: Tensor, best: Best, queries: range
) -> None:
    """Adds up the codes at positions for some queries and keeps the best."""
    if len(positions) == 0:
        return
    words = torch.from_numpy(columns.codes[positions].astype(np.int64))
    total = sums_of_all(entries, words)  # (q, n)
    if columns.bias.size:
        total += torch.from_numpy(columns.bias[positions])
    sums = total.clamp_min_(0).numpy()
    for row, query in enumerate(queries):
        near = np.flatnonzero(sums[row] <= best.distances[query, 0])
        if len(near):
            at = positions[near]
            best.merge(query, (sums[row, near], columns.keys(at), at + columns.base))

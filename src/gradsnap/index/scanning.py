"""Asymmetric distances of stored codes: table entries added up, the best kept.

One definition, two engines: a compiled kernel, and plain torch where numba is missing.
Both add in float32 in the order of the codebooks, so they agree to the bit.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gradsnap.coders.tables import Tables, sums_of_all
from gradsnap.compiled import kernels, spread

Array = NDArray[Any]

NO_ID = -1
NO_KEY = np.iinfo(np.int64).max

GROUP = 32
"""Queries that share one pass over the codes."""

FEWEST = 8
"""Fewer queries are scanned one by one: a group would mostly be padding."""

FAST_SIZE = 16
"""Codewords a codebook that fit a register, so that fast-scan can add."""

WORD = 8
"""Bytes of a number, and so codes that one read brings."""

FEW_ALIVE = 0.3
"""Where a smaller share of items counts, each is asked before it is added up."""

MOST_SMALLEST = 4096
"""Heaps of more are slower than sorting all."""

TORCH_ROWS = 16_384
"""Codes the plain engine adds up at once."""


class Best(NamedTuple):
    """The k best items so far of each query: heaps of (distance, key)."""

    distances: Array
    """float32 (q, k), infinite where nothing was found yet."""
    keys: Array
    """int64 (q, k): the id that breaks ties."""
    places: Array
    """int64 (q, k): where the item stands, -1 where nothing was found yet."""

    @classmethod
    def empty(cls, queries: int, k: int) -> "Best":
        """Nothing found yet."""
        shape = (queries, k)
        return cls(
            np.full(shape, np.inf, dtype=np.float32),
            np.full(shape, NO_KEY, dtype=np.int64),
            np.full(shape, -1, dtype=np.int64),
        )

    def part(self, start: int, stop: int) -> "Best":
        """The heaps of some queries, the same memory."""
        return Best(*(column[start:stop] for column in self))

    def ranked(self) -> "Best":
        """Ascending by distance, then key."""
        order = np.lexsort((self.keys, self.distances), axis=1)
        return Best(*(np.take_along_axis(column, order, axis=1) for column in self))

    def sorted(self) -> "Best":
        """``ranked`` for heaps, in place where a kernel can sort them."""
        compiled = kernel()
        if compiled is None:
            return self.ranked()
        compiled.sort_heaps(tuple(self))
        return self

    def merge(self, query: int, found: tuple[Array, Array, Array]) -> None:
        """Takes in items (distances, keys, places) of one query, unless too far."""
        joined = [
            np.concatenate([own[query], new])
            for own, new in zip(self, found, strict=True)
        ]
        k = self.distances.shape[1]
        order = np.lexsort((joined[1], joined[0]))[:k][::-1]  # a heap: the worst first
        for own, new in zip(self, joined, strict=True):
            own[query] = new[order]

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Ids (q, k), -1 where nothing was found, and distances (q, k)."""
        ids = np.where(self.places < 0, NO_ID, self.keys)
        return torch.from_numpy(ids), torch.from_numpy(self.distances)


class Columns(NamedTuple):
    """The items of one segment, as a scan reads them."""

    codes: Array
    """(n, M), uint8 or uint16."""
    bias: Array
    """What is added to each item's sum, float32 (n,); empty for nothing."""
    ids32: Array
    """Ids as uint32 (n,), or empty."""
    ids64: Array
    """Ids as int64 (n,), or empty; with both empty, ids count up from ``first``."""
    first: int
    """The id of item 0 where ids are implicit."""
    base: int
    """The place of item 0 in the whole index."""

    def keys(self, positions: Array) -> Array:
        """The ids at positions, int64."""
        for ids in (self.ids32, self.ids64):
            if ids.size:
                return ids[positions].astype(np.int64)
        return positions + self.first


def kernel() -> ModuleType | None:
    """The compiled scans, where numba is installed."""
    return kernels("gradsnap.index.scanning_compiled")


def filter_kernel() -> ModuleType | None:
    """The compiled scans of some items, where numba is installed."""
    return None if kernel() is None else kernels("gradsnap.index.filtered_compiled")


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
    elif len(entries) < FEWEST:
        spans = np.empty((len(entries), len(ranges), 3), dtype=np.int64)
        spans[..., :2] = ranges
        spans[..., 2] = np.arange(len(entries))[:, None]
        scan_own(columns, np.empty(0, dtype=bool), spans, entries, best)
    else:

        def work(start: int) -> None:
            _scan_group(
                compiled, columns, ranges, entries[start : start + GROUP], best, start
            )

        spread(work, range(0, len(entries), GROUP))


def scan_own(
    columns: Columns,
    alive: Array,
    spans: Array,
    tables: Tensor,
    best: Best,
    share: float = 1.0,
) -> None:
    """Scans each query's own lists.

    Args:
        columns: the segment.
        alive: which items count, bool (n,), or empty for all.
        spans: start, stop and table of each list, int64 (q, p, 3).
        tables: float32 (t, M, K).
        best: heaps of the q queries, changed in place.
        share: of the items that count, 0 to 1.
    """
    compiled = kernel()
    if compiled is None:
        _scan_own_plain(columns, alive, spans, tables, best)
        return
    frozen, entries = read_only(columns), tables.numpy()
    few = share < FEW_ALIVE
    scan = _few_scan() if few else _list_scan(compiled, columns, entries)
    threads = torch.get_num_threads()
    steps = -(-len(spans) // (4 * threads if threads > 1 else 1)) or 1

    def work(start: int) -> None:
        heaps = tuple(best.part(start, start + steps))
        scan(frozen, alive, spans[start : start + steps], entries, heaps)

    spread(work, range(0, len(spans), steps))


def _few_scan() -> Callable[..., None]:
    """The kernel for lists of which few items count."""
    few: Callable[..., None] = filter_kernel().scan_few  # type: ignore[union-attr]
    return few


def _list_scan(
    compiled: ModuleType, columns: Columns, entries: Array
) -> Callable[..., None]:
    """The kernel for lists: for eight codebooks of 256, or for any."""
    words = codes_as_words(columns, entries.shape[2])
    if words is None:
        every: Callable[..., None] = compiled.scan_lists
        return every

    def scan(
        frozen: Any, alive: Array, spans: Array, tables: Array, heaps: Any
    ) -> None:
        flat = tables.reshape(len(tables), -1)
        compiled.scan_words(frozen, words, alive, spans, flat, heaps)

    return scan


def smallest(scores: Tensor, count: int) -> Tensor:
    """Columns of the smallest scores of each row, ascending, ties by column.

    Args:
        scores: (q, n), float32 or float64.
        count: how many, at most n.

    Returns:
        int64 (q, count).
    """
    compiled = kernel() if scores.device.type == "cpu" else None
    if compiled is None or count > MOST_SMALLEST:
        return scores.argsort(dim=1, stable=True)[:, :count]
    values = scores.new_empty(len(scores), count)
    chosen = torch.empty(len(scores), count, dtype=torch.int64)
    rows = (scores.numpy(), values.numpy(), chosen.numpy())
    steps = max(FEWEST, -(-len(scores) // torch.get_num_threads()))

    def work(start: int) -> None:
        compiled.smallest(*(one[start : start + steps] for one in rows))

    spread(work, range(0, len(scores), steps))
    return chosen


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
    compiled.scan_group(read_only(columns), ranges, tables, tuple(heaps))
    for own, given in zip(heaps, best.part(start, start + rows), strict=True):
        given[:] = own[:rows]


def codes_as_words(columns: Columns, size: int) -> Array | None:
    """Codes of eight codebooks of 256 as one number each, uint64 (n,), else None."""
    codes = columns.codes
    fits = codes.dtype == np.uint8 and codes.shape[1] == WORD and size == 256
    if not fits or columns.bias.size or sys.byteorder != "little":
        return None
    words = np.ascontiguousarray(codes).view(np.uint64)[:, 0]
    words.flags.writeable = False
    return words


def read_only(columns: Columns) -> tuple[Any, ...]:
    """Arrays marked read-only, so that mapped files and memory are one type."""
    arrays = [np.asarray(column).view() for column in columns[:4]]
    for array in arrays:
        array.flags.writeable = False
    return (*arrays, columns.first, columns.base)


# --- the same in plain torch ----------------------------------------------------


def _scan_all_plain(
    columns: Columns, ranges: Array, entries: Tensor, best: Best
) -> None:
    positions = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    for part in np.array_split(positions, -(-len(positions) // TORCH_ROWS)):
        _offer(columns, part, entries, best, range(len(entries)))


def _scan_own_plain(
    columns: Columns, alive: Array, spans: Array, tables: Tensor, best: Best
) -> None:
    for query, lists in enumerate(spans):
        for start, stop, table in lists:
            positions = np.arange(start, stop)
            if alive.size:
                positions = positions[alive[start:stop]]
            _offer(
                columns,
                positions,
                tables[table : table + 1],
                best,
                range(query, query + 1),
            )


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

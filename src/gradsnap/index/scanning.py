"""Asymmetric distances of stored codes: table entries added up, the best kept.

One definition, two engines: a compiled kernel, and plain torch where numba is missing.
Both add in float32 in the order of the codebooks, so they agree to the bit.
"""

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


def float_tables(tables: Tables, constant: float) -> Tensor:
    """Tables (q, M, K) in float32 whose sums are distances: constants are in them."""
    entries = tables.entries.float().cpu()
    shift = (tables.offsets + constant).float().cpu()
    if bool(shift.any()):
        entries = entries.clone()
        entries[:, 0] += shift[:, None]
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
    columns: Columns, alive: Array, spans: Array, tables: Tensor, best: Best
) -> None:
    """Scans each query's own lists.

    Args:
        columns: the segment.
        alive: which items count, bool (n,), or empty for all.
        spans: start, stop and table of each list, int64 (q, p, 3).
        tables: float32 (t, M, K).
        best: heaps of the q queries, changed in place.
    """
    compiled = kernel()
    if compiled is None:
        _scan_own_plain(columns, alive, spans, tables, best)
        return
    frozen = _read_only(columns)
    steps = -(-len(spans) // (4 * torch.get_num_threads())) or 1

    def work(start: int) -> None:
        stop = start + steps
        heaps = tuple(best.part(start, stop))
        compiled.scan_lists(frozen, alive, spans[start:stop], tables.numpy(), heaps)

    spread(work, range(0, len(spans), steps))


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
    compiled.scan_group(_read_only(columns), ranges, tables, tuple(heaps))
    for own, given in zip(heaps, best.part(start, start + rows), strict=True):
        given[:] = own[:rows]


def _read_only(columns: Columns) -> tuple[Any, ...]:
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

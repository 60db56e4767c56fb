"""A segment: items that were added together, column by column, and their ids."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import InputError
from gradsnap.index.columns import frozen
from gradsnap.index.metadata import StoredTable, join_tables
from gradsnap.strings import PackedStrings

Array = NDArray[Any]

GivenIds = Tensor | Array | Sequence[int] | Sequence[str]
"""What a user may pass as ids."""

Ids = Array | list[str]
"""Checked: int64 (n,), or strings."""


DENSE = 4
"""Ids below so many times the items are found by a table, not by a search."""


def _nothing() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass(eq=False)
class Segment:
    """Items by position; in memory, or mapped from files.

    Codes never change: removing marks positions, and ``merge`` leaves them out. Names
    and metadata may be replaced as a whole.
    """

    codes: Array
    """Packed codes, uint8 (n, bytes)."""
    ids: Array | None = None
    """uint32 or int64 (n,); None where they count up from ``first``."""
    first: int = 0
    """The id of position 0 where ids are implicit."""
    bounds: Array | None = None
    """Where each list begins, int64 (lists + 1,); None without lists."""
    fine: Array | None = None
    """What re-ranking needs, uint8 (n, bytes)."""
    names: PackedStrings | None = None
    """String ids; ``ids`` are then the order in which they were added."""
    stored: Any = None
    """Metadata columns: a pyarrow table, or a ``StoredTable``."""
    removed: Array = field(default_factory=_nothing)
    """Positions that no longer count, int64, ascending."""
    name: str | None = None
    """What its files are called; None until saved."""
    restated: bool = False
    """Whether names or metadata changed since it was saved."""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def live(self) -> int:
        """How many items count."""
        return len(self) - len(self.removed)

    @property
    def table(self) -> Any:
        """Metadata columns, a pyarrow table, or None."""
        return (
            self.stored.table if isinstance(self.stored, StoredTable) else self.stored
        )

    @functools.cached_property
    def _ordered(self) -> tuple[Array, Array]:
        """Explicit ids ascending, and where they stand."""
        order = np.argsort(self.ids, kind="stable")  # type: ignore[arg-type]
        return self.all_ids()[order], order

    def all_ids(self) -> Array:
        """The id of every position, int64 (n,)."""
        if self.ids is None:
            return np.arange(self.first, self.first + len(self), dtype=np.int64)
        return np.asarray(self.ids).astype(np.int64)

    def find(self, ids: Ids) -> Array:
        """Positions of ids, -1 where they are not here or no longer count."""
        if isinstance(ids, list):
            found = (
                np.full(len(ids), -1) if self.names is None else self.names.find(ids)
            )
        elif self.names is not None or len(self) == 0:
            found = np.full(len(ids), -1, dtype=np.int64)
        elif self.ids is None:
            found = _within(ids - self.first, len(self))
        elif self.inverse is not None:
            found = _within(ids, len(self.inverse))
            found = np.where(found < 0, -1, self.inverse[found])
        else:
            values, order = self._ordered
            at = np.searchsorted(values, ids).clip(max=len(self) - 1)
            found = np.where(values[at] == ids, order[at], -1)
        if len(self.removed) == 0:
            return np.asarray(found)
        return np.where(_is_in(found, self.removed), -1, found)

    @functools.cached_property
    def inverse(self) -> Array | None:
        """The position of every id from 0 on, -1 for none; None if ids are sparse."""
        largest = int(np.max(self.ids)) if self.ids is not None and len(self) else 0
        if largest >= DENSE * len(self):
            return None
        inverse = np.full(largest + 1, -1, dtype=np.int64)
        inverse[self.all_ids()] = np.arange(len(self))
        return inverse

    @property
    def complete(self) -> bool:
        """Whether ids are whole numbers without a gap, from 0 or ``first`` on."""
        if self.names is not None or len(self.removed) or len(self) == 0:
            return False
        whole = self.ids is None
        return whole or (self.inverse is not None and len(self.inverse) == len(self))

    @functools.cached_property
    def alive(self) -> Array:
        """Which items count, bool (n,); empty for all."""
        if len(self.removed) == 0:
            return np.empty(0, dtype=bool)
        mask = np.ones(len(self), dtype=bool)
        mask[self.removed] = False
        return mask

    def remove(self, positions: Array) -> None:
        """Marks positions as removed."""
        self.removed = np.union1d(self.removed, positions)
        for made in ("ranges", "alive"):
            self.__dict__.pop(made, None)

    def counted(self) -> Array:
        """Positions that count, ascending, int64."""
        keep = np.ones(len(self), dtype=bool)
        keep[self.removed] = False
        return np.flatnonzero(keep)

    @functools.cached_property
    def frozen_bounds(self) -> Array:
        """``bounds``, read-only whether they are mapped from a file or not."""
        return frozen(np.asarray(self.bounds))

    @functools.cached_property
    def ranges(self) -> Array:
        """Runs of positions that count, half-open, (r, 2)."""
        edges = np.concatenate([[-1], self.removed, [len(self)]])
        runs = np.stack([edges[:-1] + 1, edges[1:]], axis=1)
        return np.ascontiguousarray(runs[runs[:, 0] < runs[:, 1]], dtype=np.int64)

    def list_numbers(self) -> Array:
        """The list of every position, int64 (n,)."""
        bounds = np.asarray(self.bounds)
        return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def narrow(ids: Array) -> Array:
    """Ids as uint32 where they fit, int64 where they do not."""
    fits = ids.size == 0 or int(ids.max()) < 2**32
    return ids.astype(np.uint32 if fits else np.int64)


def checked_ids(ids: GivenIds) -> Ids:
    """Whole numbers of at least 0 as int64 (n,), or a list of strings."""
    if isinstance(ids, str):
        raise InputError(f"expected a sequence of ids, got the string {ids!r}")
    values = ids.detach().cpu().numpy() if isinstance(ids, Tensor) else np.asarray(ids)
    if values.ndim != 1:
        raise InputError(f"expected ids of shape (n,), got {values.shape}")
    if values.dtype.kind in "UT" or _all_strings(values):
        return [str(value) for value in values]
    if values.size and values.dtype.kind not in "iu":
        raise InputError(
            f"ids must be whole numbers or strings, got {values.dtype} such as "
            f"{values.flat[0]!r}"
        )
    if values.size and (values.min() < 0 or int(values.max()) >= 2**63 - 1):
        bad = values[(values < 0) | (values > 2**63 - 2)][0]
        raise InputError(f"ids must lie in 0..2**63 - 2 (-1 is padding), got {bad}")
    return values.astype(np.int64, copy=False)


def new_ids(ids: GivenIds, count: int) -> Ids:
    """``checked_ids`` of ``count`` new items: as many, all different."""
    checked = checked_ids(ids)
    if len(checked) != count:
        raise InputError(f"{count} items need {count} ids, got {len(checked)}")
    if isinstance(checked, list):
        repeated = len(set(checked)) < count
    else:
        repeated = len(np.unique(checked)) < count
    if repeated:
        values, counts = np.unique(np.asarray(checked), return_counts=True)
        raise InputError(f"id {values[counts > 1][0].item()!r} is given twice")
    return checked


def _all_strings(values: Array) -> bool:
    if values.dtype.kind != "O" or values.size == 0:
        return False
    return all(isinstance(value, str) for value in values)


def sorted_by_list(segment: Segment, lists: Array, num_lists: int) -> Segment:
    """The segment's items grouped by lists (n,), in the order they had."""
    order = np.argsort(lists, kind="stable")
    counts = np.bincount(lists, minlength=num_lists)
    names = segment.names
    return Segment(
        codes=segment.codes[order],
        ids=narrow(segment.all_ids()[order]),
        bounds=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        fine=None if segment.fine is None else segment.fine[order],
        names=None if names is None else names.take(order),
        stored=None if segment.stored is None else segment.table.take(order),
    )


def merge(segments: Sequence[Segment]) -> Segment:
    """One segment of all items that count."""
    kept = [_without_removed(segment) for segment in segments]
    ids = np.concatenate([s.all_ids() for s in kept])
    whole = Segment(
        codes=np.concatenate([s.codes for s in kept]),
        fine=_join_fine(kept),
        names=_join_names(kept),
        stored=join_tables([s.table for s in kept], [len(s) for s in kept]),
    )
    whole.first = int(ids[0]) if len(ids) else 0
    if not np.array_equal(ids, whole.all_ids()):
        whole.ids = narrow(ids)
    if kept[0].bounds is None:
        return whole
    lists = np.concatenate([s.list_numbers() for s in kept])
    return sorted_by_list(whole, lists, len(kept[0].bounds) - 1)


def runs(positions: Array) -> Array:
    """Ascending positions as runs, half-open, (r, 2)."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    starts = positions[np.concatenate([[0], breaks])] if len(positions) else positions
    stops = positions[np.concatenate([breaks - 1, [-1]])] + 1 if len(starts) else starts
    return np.ascontiguousarray(np.stack([starts, stops], axis=1), dtype=np.int64)


def _without_removed(segment: Segment) -> Segment:
    """The segment without its removed items."""
    if len(segment.removed) == 0:
        return segment
    at = segment.counted()
    bounds = segment.bounds
    if bounds is not None:
        bounds = np.searchsorted(at, bounds)
    names = segment.names
    return Segment(
        codes=segment.codes[at],
        ids=narrow(segment.all_ids()[at]),
        bounds=bounds,
        fine=None if segment.fine is None else segment.fine[at],
        names=None if names is None else names.take(at),
        stored=None if segment.stored is None else segment.table.take(at),
    )


def _join_fine(segments: Sequence[Segment]) -> Array | None:
    parts = [s.fine for s in segments if s.fine is not None]
    return np.concatenate(parts) if parts else None


def _join_names(segments: Sequence[Segment]) -> PackedStrings | None:
    if all(s.names is None for s in segments):
        return None
    return PackedStrings.of(n for s in segments if s.names for n in s.names)


def _within(values: Array, count: int) -> Array:
    """The values that lie in 0 … count - 1, -1 for the others."""
    if len(values) == 0 or (values.min() >= 0 and values.max() < count):
        return values
    return np.where((values >= 0) & (values < count), values, -1)


def _is_in(values: Array, ascending: Array) -> Array:
    if len(ascending) == 0:
        return np.zeros(len(values), dtype=bool)
    at = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    return np.asarray(ascending[at] == values)

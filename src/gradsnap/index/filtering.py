"""Filters: the items a search is limited to, found once, used for many searches."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.compiled import kernels
from gradsnap.errors import InputError
from gradsnap.index.best import Best
from gradsnap.index.columns import Columns, frozen
from gradsnap.index.scanning import (
    ALL,
    FEW_ALIVE,
    FEWEST,
    Lists,
    kernel,
    list_kernel,
    scan_all,
    scan_own,
)
from gradsnap.index.segments import GivenIds, Ids, Segment, runs
from gradsnap.index.shuffles import NO_BLOCKS, blocks_of

Array = NDArray[Any]

LONG_RUN = 64
"""Items that lie so many in a row are scanned where they are; others are copied."""

SINGLE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Numbers of so many bytes, to copy a code at once."""


class Allowed:
    """The items of one segment that a search may find.

    Args:
        positions: int64 (r,), each once.
        count: items of the segment.
        mask: which items those are, bool (count,), where it is known.
    """

    def __init__(self, positions: Array, count: int, mask: Array | None = None) -> None:
        self.positions = positions
        self.count = count
        if mask is not None:
            self.mask = mask
        self.kept = False
        """Whether it serves many searches, so that copies pay."""
        self._copied: Columns | None = None
        self._part: tuple[Any, ...] | None = None

    def found(self) -> "Allowed":
        """The same, with all that is found late."""
        return self

    @property
    def share(self) -> float:
        """How many of the items those are, 0 to 1."""
        return len(self.positions) / max(1, self.count)

    @functools.cached_property
    def mask(self) -> Array:
        """Which items those are, bool (count,)."""
        mask = np.zeros(self.count, dtype=bool)
        mask[self.positions] = True
        return mask

    @functools.cached_property
    def counted(self) -> tuple[Array, bool]:
        """The mask, and whether it leaves few items, as ``scan_lists`` takes them."""
        return self.mask, self.share < FEW_ALIVE

    @functools.cached_property
    def runs(self) -> Array | None:
        """Half-open runs (r, 2) where they are long; None for scattered items."""
        some = self.positions[:LONG_RUN]
        if not bool((some[1:] - some[:-1] == 1).all()):
            return None  # a glance at the first of them spares most a closer look
        found = runs(np.flatnonzero(self.mask))
        return found if LONG_RUN * len(found) <= len(self.positions) else None

    def columns(self, whole: Columns) -> Columns:
        """Copies of what a scan reads of these items, side by side; made once."""
        if self._copied is None:
            at = self.positions
            bias = whole.bias[at] if whole.bias.size else whole.bias
            codes, keys = _rows(whole.codes, at), whole.keys(at)
            words = whole.words[at] if whole.words.size else whole.words
            blocks = blocks_of(words) if whole.blocks.size else NO_BLOCKS
            self._copied = Columns.of(codes, bias, keys, words, 0, blocks)
        return self._copied

    def part(self, whole: Columns) -> tuple[Any, ...]:
        """Those copies as one list, as ``scan_lists`` takes it; made once."""
        if self._part is None:
            own = self.columns(whole)
            bounds = frozen(np.array([0, len(self.positions)]))
            self._part = tuple(own), (ALL, False), (bounds, 1)
        return self._part


def parts_of(segments: Sequence[Segment], positions: list[Array]) -> list[Allowed]:
    """Ascending positions by segment, as a scan takes them."""
    pairs = zip(segments, positions, strict=True)
    return [Allowed(at, len(segment)) for segment, at in pairs]


class Marked(Allowed):
    """Items by ids that are marked, not found yet: a query in lists meets few of them.

    Args:
        segment: all of whose ids, from its lowest one on, are there.
        ids: of its items, int64 (r,).
        marks: bit i of word w is id ``64 w + i``, counted from the lowest.
        different: how many ids are marked.
    """

    def __init__(
        self, segment: Segment, ids: Array, marks: Array, different: int
    ) -> None:
        self.segment, self.ids, self.marks = segment, ids, marks
        self.different, self.count = different, len(segment)
        self.kept, self._copied, self._part = False, None, None

    @property
    def share(self) -> float:
        """How many of the items those are, 0 to 1."""
        return self.different / max(1, self.count)

    def found(self) -> Allowed:
        """The same, found now: it no longer depends on the ids that were given."""
        found = chosen(self.segment, self.ids)
        return found or Allowed(np.unique(self.segment.find(self.ids)), self.count)

    @functools.cached_property
    def _found(self) -> Allowed:
        return self.found()

    @functools.cached_property
    def positions(self) -> Array:  # type: ignore[override]
        """Where they stand, int64, each once."""
        return self._found.positions

    @functools.cached_property
    def mask(self) -> Array:
        """Which items those are, bool (count,)."""
        return self._found.mask


class Filter:
    """What ``index.filter`` found: give it to ``search`` as ``within``.

    Finding half of a million ids takes longer than to search among them; with a filter
    it is done once. It holds for the index as it is: after items were added or removed
    it is refused.

    Args:
        parts: by segment.
        segments: the segments, as they are now.
    """

    def __init__(self, parts: list[Allowed], segments: Sequence[Segment]) -> None:
        self._parts = [part.found() for part in parts]
        for part in self._parts:
            part.kept = True
        self._segments = list(segments)
        self._removed = [len(one.removed) for one in segments]

    def __len__(self) -> int:
        return sum(len(part.positions) for part in self._parts)

    def parts(self, segments: Sequence[Segment]) -> list[Allowed]:
        """What it found in the same segments.

        Raises:
            InputError: they are others, or items were removed since.
        """
        if len(segments) != len(self._segments) or any(
            one is not self._segments[at] or len(one.removed) != self._removed[at]
            for at, one in enumerate(segments)
        ):
            raise InputError(
                "items were added to the index or removed from it since this filter "
                "was made, or it is of another index: make it again with index.filter"
            )
        return self._parts


def marked(segment: Segment, given: GivenIds) -> Marked | None:
    """The items of a segment with such ids; None if some may not be there.

    Nothing is looked up, so half a million ids take a third of a millisecond.
    """
    compiled = kernels("gradsnap.index.filtered_compiled") if kernel() else None
    ids = _plain_ids(given)
    if compiled is None or ids is None or not segment.complete:
        return None
    first = segment.first if segment.ids is None else 0
    marks = np.zeros(-(-len(segment) // 64), dtype=np.uint64)
    different = compiled.mark(ids, first, len(segment), marks)
    return None if different < 0 else Marked(segment, ids, marks, different)


def chosen(segment: Segment, ids: Ids) -> Allowed | None:
    """The items of a segment with such ids; None if some are not there.

    One pass over the ids, compiled; half a million of them take a millisecond or two.
    """
    compiled = kernels("gradsnap.index.filtered_compiled") if kernel() else None
    inverse = np.empty(0, dtype=np.int64)
    if isinstance(ids, list) or compiled is None or segment.names is not None:
        return None
    if segment.ids is not None:
        if segment.inverse is None:
            return None
        inverse = segment.inverse
    mask = np.zeros(len(segment), dtype=bool)
    positions = np.empty(len(ids), dtype=np.int64)
    count = compiled.choose(ids, segment.first, inverse, mask, positions)
    if count < 0 or mask[segment.removed].any():
        return None
    return Allowed(positions[:count], len(segment), mask)


def scan_allowed(
    columns: Columns, allowed: Allowed, entries: Tensor, best: Best, places: int
) -> None:
    """``scan_all`` of the allowed items of a segment.

    For many queries, or a filter that serves many searches, scattered ones are copied
    together first: a scan of many runs of an item or two takes several times as long as
    the copy. For a few queries once, single items are scanned if they are few; if not,
    all are, and what is near is asked whether it is allowed.

    Args:
        columns: the whole segment.
        allowed: which of its items.
        entries: tables float32 (q, M, K).
        best: heaps of the q queries, changed in place.
        places: how many the whole index has.
    """
    if allowed.runs is not None:
        scan_all(columns, allowed.runs, entries, best)
        return
    compiled = kernels("gradsnap.index.chosen_compiled") if list_kernel() else None
    once = len(entries) < FEWEST and compiled is not None and not allowed.kept
    if once and allowed.share >= FEW_ALIVE:
        everything = Lists.of_ranges(np.array([[0, allowed.count]]), len(entries))
        scan_own(columns, allowed.mask, everything, entries, best)
        return
    if once and compiled is not None:
        tables, heaps = entries.numpy(), tuple(best)
        compiled.scan_chosen(tuple(columns), allowed.positions, tables, heaps)
        return
    copied = allowed.columns(columns)._replace(base=places)
    scan_all(copied, np.array([[0, len(copied.codes)]]), entries, best)
    found = best.places >= places  # counted among the copies
    best.places[found] = allowed.positions[best.places[found] - places] + columns.base


def _rows(codes: Array, at: Array) -> Array:
    """The rows of codes (n, M) at positions, each copied as one number where it can."""
    whole = np.ascontiguousarray(codes)
    single = SINGLE.get(whole.shape[1] * whole.itemsize)
    if single is None:
        return whole[at]
    return whole.view(single)[:, 0][at].view(whole.dtype).reshape(len(at), -1)


def _plain_ids(ids: GivenIds) -> Array | None:
    """Ids that are int64 (n,) already, unchecked; None for others."""
    if isinstance(ids, Tensor) and ids.is_cpu and not ids.is_floating_point():
        ids = ids.numpy()
    plain = isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1
    whole: Array | None = np.ascontiguousarray(ids) if plain else None
    return whole

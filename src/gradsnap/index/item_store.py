"""All items of an index: its segments, how they are found by id and read by a scan."""

import functools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.packing import unpack
from gradsnap.errors import InputError
from gradsnap.index.columns import NO_BIAS, NO_WORDS, Columns, words_of
from gradsnap.index.filtering import Allowed, chosen, marked
from gradsnap.index.scanning import FAST_SIZE
from gradsnap.index.segments import (
    GivenIds,
    Ids,
    Segment,
    checked_ids,
    merge,
    narrow,
)
from gradsnap.index.shuffles import NO_BLOCKS, blocks_of
from gradsnap.strings import PackedStrings

Array = NDArray[Any]

MOST_IDS = 2**63 - 1
"""Ids lie below: as many numbers as int64 holds, and one less."""

CROSS_ROWS = 65_536
"""Codes whose cross terms are computed at once."""


class ItemStore:
    """Segments in the order they were added.

    Segments in memory are merged when a later one has grown as large, so that there
    are few of them; segments of files are merged by ``compact`` only.

    Args:
        coder: whose codes these are.
    """

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.segments: list[Segment] = []
        self.next_id = 0
        self._read: weakref.WeakKeyDictionary[Segment, Columns]
        self._read = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        return sum(segment.live for segment in self.segments)

    @property
    def named(self) -> bool | None:
        """Whether ids are strings; None while there is no item."""
        if not self.segments:
            return None
        return self.segments[0].names is not None

    def identify(self, segment: Segment, ids: Ids | None) -> None:
        """Gives the items of a new segment their ids, or the next free numbers."""
        named = self.named
        if named is not None and named != isinstance(ids, list):
            have, got = ("strings", "numbers") if named else ("numbers", "strings")
            got = "none" if ids is None and named else got
            raise InputError(f"the ids of this index are {have}; got {got}")
        segment.first = self.next_id
        if ids is None:
            self._refuse_too_many(len(segment))
            return
        self._refuse_known(ids)
        if isinstance(ids, list):
            segment.names = PackedStrings.of(ids)
        elif not np.array_equal(ids - ids[0], np.arange(len(ids))):
            segment.ids = narrow(ids)
        else:
            segment.first = int(ids[0])

    def _refuse_too_many(self, count: int) -> None:
        """Refuses items for which no numbers are left."""
        if self.next_id + count > MOST_IDS:
            raise InputError(
                f"the next free number is {self.next_id}, and ids lie in "
                f"0..2**63 - 2: {count} items need ids that are given"
            )

    def append(self, segment: Segment) -> None:
        """Takes in a segment."""
        last = segment.first + len(segment) - 1
        if segment.ids is not None:
            last = int(segment.ids.max())
        self.next_id = max(self.next_id, last + 1)
        if not self.segments:
            self.__dict__.pop("constant", None)  # codebooks may have been fitted since
        self.segments.append(segment)
        while len(self.segments) > 1 and self._last_two_should_merge():
            self.segments[-2:] = [merge(self.segments[-2:])]

    def _last_two_should_merge(self) -> bool:
        before, last = self.segments[-2:]
        in_memory = before.name is None and last.name is None
        return in_memory and len(before) <= 2 * len(last)

    def compact(self) -> None:
        """Puts all items that count into one segment."""
        tidy = len(self.segments) == 1 and len(self.segments[0].removed) == 0
        if self.segments and not tidy:
            whole = merge(self.segments)
            self.segments = [whole] if len(whole) else []

    def find(self, ids: Ids) -> list[tuple[Array, Array]]:
        """For each segment the positions of ids, and which of the ids they are.

        Raises:
            InputError: an id is not in the index.
        """
        found, rest = [], np.arange(len(ids))
        for segment in self.segments:
            asked = [ids[i] for i in rest] if isinstance(ids, list) else ids[rest]
            at = segment.find(asked)
            if len(at) and at.min() >= 0:  # all of them, the common case
                found.append((at, rest))
                rest = rest[:0]
                continue
            found.append((at[at >= 0], rest[at >= 0]))
            rest = rest[at < 0]
        if len(rest):
            kind = "strings" if self.named else "whole numbers"
            raise InputError(
                f"{len(rest)} of {len(ids)} ids are not in the index, the first is "
                f"{_first_of(ids, rest)}; the index holds {len(self)} "
                f"items, their ids are {kind}"
            )
        return found

    def allowed(self, ids: GivenIds) -> list[Allowed]:
        """The items with such ids by segment; refuses ids that are not there."""
        if len(self.segments) == 1 and self.segments[0].bounds is not None:
            own = marked(self.segments[0], ids)
            if own is not None:
                return [own]
        checked = checked_ids(ids)
        if len(self.segments) == 1:
            whole = chosen(self.segments[0], checked)
            if whole is not None:
                return [whole]
        found = zip(self.segments, self.find(checked), strict=True)
        return [Allowed(np.unique(at), len(segment)) for segment, (at, _) in found]

    def known(self, ids: Ids) -> Array:
        """Which of the ids are in the index, their places among the ids, ascending."""
        here = np.zeros(len(ids), dtype=bool)
        for segment in self.segments:
            here |= segment.find(ids) >= 0
        return np.flatnonzero(here)

    def ids_at(self, positions: list[Array] | None) -> Ids:
        """Ids at positions by segment, or of all items that count, in their order."""
        parts: list[Any] = []
        for number, segment in enumerate(self.segments):
            at = segment.counted() if positions is None else positions[number]
            names = segment.names
            parts.append(
                segment.all_ids()[at]
                if names is None
                else [names[one] for one in at.tolist()]
            )
        if self.named:
            return [name for part in parts for name in part]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def places(self, ids: Ids) -> Array:
        """Where ids stand in the whole index, (n,)."""
        places, base = np.empty(len(ids), dtype=np.int64), 0
        for segment, (at, rows) in zip(self.segments, self.find(ids), strict=True):
            places[rows] = base + at
            base += len(segment)
        return places

    def metadata(self, ids: Ids) -> list[dict[str, Any]]:
        """For each id its columns by name."""
        found: list[dict[str, Any]] = [{} for _ in ids]
        for segment, (at, rows) in zip(self.segments, self.find(ids), strict=True):
            if segment.stored is not None and len(at):
                own = segment.table.take(at).to_pylist()
                for row, values in zip(rows.tolist(), own, strict=True):
                    found[row] = values
        return found

    def _refuse_known(self, ids: Ids) -> None:
        """Raises an InputError if one of the ids is in the index."""
        for segment in self.segments:
            known = np.flatnonzero(segment.find(ids) >= 0)
            if len(known):
                raise InputError(
                    f"{len(known)} of {len(ids)} ids are in the index already, the "
                    f"first is {_first_of(ids, known)}; remove them first"
                )

    def columns(self) -> Iterator[Columns]:
        """What a scan reads, segment by segment."""
        base = 0
        for segment in self.segments:
            own = self._read.get(segment)
            if own is None:
                own = self._read[segment] = self._columns(segment)
            yield own._replace(base=base) if base else own
            base += len(segment)

    def _columns(self, segment: Segment) -> Columns:
        """Unpacked codes and what is added to their sums, ids."""
        coder, packed = self.coder, np.asarray(segment.codes)
        codes = unpack(packed, coder.num_codebooks, coder.codebook_size)
        bias = self._bias(codes)
        words = NO_WORDS if bias.size else words_of(packed, coder)
        paired = coder.codebook_size == FAST_SIZE
        blocks = blocks_of(words) if paired else NO_BLOCKS
        return Columns.of(codes, bias, segment.ids, words, segment.first, blocks)

    def _bias(self, codes: Array) -> Array:
        """Cross terms (n,) less the constant; empty where nothing is left."""
        if type(self.coder)._cross_terms is Coder._cross_terms:
            return NO_BIAS  # no cross terms at all, so none need be looked at
        parts = [
            self.coder.cross_terms(torch.from_numpy(part.astype(np.int64)))
            for part in np.array_split(codes, -(-len(codes) // CROSS_ROWS) or 1)
        ]
        terms = np.concatenate([part.float().cpu().numpy() for part in parts])
        left = terms - np.float32(self.constant)
        return left if left.any() else NO_BIAS

    @functools.cached_property
    def constant(self) -> float:
        """The cross term some codes share, which tables can hold; 0 where they differ.

        What a code's own term differs from it is in its bias.
        """
        generator = torch.Generator().manual_seed(0)
        shape = (64, self.coder.num_codebooks)
        some = torch.randint(self.coder.codebook_size, shape, generator=generator)
        terms = self.coder.cross_terms(some)
        return float(terms[0]) if bool((terms == terms[0]).all()) else 0.0

    def codes_of(self, ids: Ids) -> tuple[Tensor, Tensor]:
        """Codes (n, M) and lists (n,), zero without lists, of ids, both int64."""
        coder = self.coder
        codes = np.zeros((len(ids), coder.num_codebooks), dtype=np.int64)
        lists = np.zeros(len(ids), dtype=np.int64)
        for segment, (at, rows) in zip(self.segments, self.find(ids), strict=True):
            packed = np.asarray(segment.codes)[at]
            codes[rows] = unpack(packed, coder.num_codebooks, coder.codebook_size)
            if segment.bounds is not None:
                lists[rows] = np.searchsorted(segment.bounds, at, side="right") - 1
        return torch.from_numpy(codes), torch.from_numpy(lists)

    def fine_rows(self, places: Array, row_bytes: int) -> Array:
        """What re-ranking needs at places (…): uint8 (…, row_bytes)."""
        rows = np.zeros((*places.shape, row_bytes), dtype=np.uint8)
        for inside, at, segment in self._by_segment(places):
            rows[inside] = segment.fine[at]  # type: ignore[index]
        return rows

    def strings(self, places: Array) -> list[list[str | None]]:
        """String ids at places (q, k), None where there is no item."""
        found = np.full(places.shape, None, dtype=object)
        for inside, at, segment in self._by_segment(places):
            found[inside] = [segment.names[i] for i in at.tolist()]  # type: ignore[index]
        rows: list[list[str | None]] = found.tolist()
        return rows

    def _by_segment(self, places: Array) -> Iterator[tuple[Array, Array, Segment]]:
        """For each segment: which places are in it, their positions, the segment."""
        base = 0
        for segment in self.segments:
            inside = (places >= base) & (places < base + len(segment))
            yield inside, places[inside] - base, segment
            base += len(segment)


def _first_of(ids: Ids, which: Array) -> str:
    """The first of some ids, as the user wrote it."""
    value = ids[int(which[0])]
    return repr(value if isinstance(value, str) else int(value))

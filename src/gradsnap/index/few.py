"""A handful of queries on lists: lists, tables and scan in one compiled call.

Each step in torch takes longer than its numbers do. The kernels are those of the single
steps, so the answers are theirs, to the bit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.compiled import kernels
from gradsnap.index.best import Best
from gradsnap.index.filtering import Allowed, Marked
from gradsnap.index.item_store import ItemStore
from gradsnap.index.queries import SearchResult
from gradsnap.index.scanning import FEW_ALIVE
from gradsnap.index.segments import Segment

Array = NDArray[Any]
Found = tuple[Array, Array, Array]
Part = tuple[Any, ...]
"""Of one segment, as ``scan_lists`` takes it: columns, what counts, spans of lists."""

NO_HALVES = np.empty(0, dtype=np.float32)
NO_MARKS = np.empty(0, dtype=np.uint64)


class Coarse(NamedTuple):
    """What queries are compared with to find their lists.

    Centroids by the scores of their tiles, or pairs of codewords of two codebooks by
    the sums of their tables: those have no ``halves``.
    """

    tiles: Array
    """Centroids (t, dim, TILE) as in ``Centroids``, or codebooks (2, width, K)."""
    halves: Array
    """Half the squared norms of centroids, (t · TILE,); empty for pairs."""


class Prepared(NamedTuple):
    """What kernels need of an index as it is, ready to be handed over.

    Nothing in it ever changes, so that threads can share it: an index that was changed
    makes another one.
    """

    known: list[Any]
    """Objects that are others once the index was changed: see ``holds``."""
    versions: tuple[int | None, int | None]
    """Of the coarse words and the codebooks, which may be changed in place."""
    words: tuple[Array, Array, Array]
    """Tiles and halves of a ``Coarse``; codebooks turned around, (M, width, K)."""
    parts: list[Part]
    """By segment."""
    live: int
    """Items that can be found."""

    @classmethod
    def of(
        cls, coarse: Coarse, own: tuple[Tensor, Tensor], items: ItemStore
    ) -> "Prepared":
        """What is compared with queries, made of ``own``, and the items.

        Args:
            coarse: made of the words below.
            own: the words queries are compared with to find lists; codebooks (M, K,
                width).
            items: of the index.
        """
        segments = list(items.segments)
        known = [*own, *segments, *(one.removed for one in segments)]
        versions = version_of(own[0]), version_of(own[1])
        pairs = zip(items.columns(), segments, strict=True)
        parts = [
            (tuple(columns), (segment.alive, False), (segment.frozen_bounds, 1))
            for columns, segment in pairs
        ]
        words = (*coarse, turned(own[1]))
        return cls(known, versions, words, parts, sum(one.live for one in segments))

    def holds(
        self, words: Tensor, codebooks: Tensor, segments: Sequence[Segment]
    ) -> bool:
        """Whether words, codebooks and items are still the same."""
        known, count = self.known, len(segments)
        of_words, of_codebooks = self.versions
        if (
            known[0] is not words
            or known[1] is not codebooks
            or (of_words is not None and words._version != of_words)
            or (of_codebooks is not None and codebooks._version != of_codebooks)
            or len(known) != 2 + 2 * count
        ):
            return False
        for at, segment in enumerate(segments, 2):
            if known[at] is not segment or known[at + count] is not segment.removed:
                return False
        return True


class Turned(NamedTuple):
    """Codebooks as kernels take them, for an index without lists."""

    codebooks: Tensor
    """Of which it was made, (M, K, width)."""
    version: int | None
    books: Array
    """Turned around, (M, width, K)."""

    @classmethod
    def of(cls, codebooks: Tensor) -> "Turned":
        """Codebooks (M, K, width), as they are now."""
        return cls(codebooks, version_of(codebooks), turned(codebooks))

    def holds(self, codebooks: Tensor) -> bool:
        """Whether codebooks are still the same."""
        same, known = self.codebooks is codebooks, self.version
        return same and (known is None or codebooks._version == known)


class Few(NamedTuple):
    """A few queries, and the index that they look into."""

    ready: Prepared
    rows: tuple[Array, Array]
    """As they are compared to find lists, (q, dim), and in blocks, (q, M · width)."""
    probes: int

    def scan(self, allowed: list[Allowed] | None, best: Best) -> None:
        """Finds lists and tables, and offers all items, or those allowed."""
        compiled: Any = kernels("gradsnap.index.few_compiled")
        lists, tables = compiled.begin_few(self.rows, self.ready.words, self.probes)
        for part in self._parts(allowed):
            compiled.scan_lists(*part, lists, tables, tuple(best))

    def search(self, allowed: list[Allowed] | None, k: int) -> Found | None:
        """All of a search in an index of one segment, in one call.

        Returns:
            Distances, ids and places of the best, (q, k), nearest first, -1 for what
            was not found; None where the queries hold what is no number, or too large
            a one.
        """
        compiled: Any = kernels("gradsnap.index.few_compiled")
        (part,), marks = self.ready.parts, NO_MARKS
        if allowed is not None and isinstance(allowed[0], Marked):
            marks, room = allowed[0].marks, np.empty(allowed[0].count, dtype=bool)
            part = (part[0], (room, allowed[0].share < FEW_ALIVE), part[2])
        elif allowed is not None:
            part = (part[0], allowed[0].counted, part[2])
        words = self.ready.words
        found = compiled.search_few(self.rows, words, part, marks, self.probes, k)
        return found if len(found[0]) else None

    def _parts(self, allowed: list[Allowed] | None) -> list[Part]:
        """The segments, of which those items count that are allowed."""
        if allowed is None:
            return self.ready.parts
        pairs = zip(self.ready.parts, allowed, strict=True)
        return [(part[0], own.counted, part[2]) for part, own in pairs]


def search_whole(rows: Array, books: Array, part: Part, k: int) -> Found | None:
    """All of a search among the items of a part, in one call; as ``Few.search``.

    Args:
        rows: queries in blocks, (q, M · width).
        books: codebooks turned around, (M, width, K).
        part: whose items are one list.
        k: how many to find.
    """
    compiled: Any = kernels("gradsnap.index.few_compiled")
    found: Found = compiled.search_whole(rows, books, part, k)
    return found if len(found[0]) else None


def result_of(found: Found, items: ItemStore) -> SearchResult:
    """Distances, ids and places (q, k) of a kernel as a search gives them."""
    distances = torch.from_numpy(found[0])
    if items.named:
        return SearchResult(items.strings(found[2]), distances)
    return SearchResult(torch.from_numpy(found[1]), distances)


def version_of(x: Tensor) -> int | None:
    """How often a tensor was changed in place; None if it never can be."""
    return None if x.is_inference() else x._version


def turned(codebooks: Tensor) -> Array:
    """Codebooks (M, K, width) as ``turned_tables`` takes them, (M, width, K)."""
    return array_of(codebooks.transpose(1, 2))


def array_of(x: Tensor) -> Array:
    """The numbers of a tensor on a CPU, without a copy where they lie in order."""
    plain = x.detach() if x.requires_grad else x  # detaching takes half a microsecond
    numbers: Array = plain.contiguous().numpy()
    return numbers

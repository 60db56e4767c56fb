"""Queries on lists: their lists, tables and scan in one compiled call.

Each step in torch takes longer than the numbers of a few queries do, and with many each
thread does all for its share. A query finds the same, to the bit, alone and among
others.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.quantizers.block_tables import FEW, Blocks
from gradsnap.compiled import kernels, on_threads, spread
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

AT_ONCE = 16
"""Queries whose lists and tables are held at once."""
MOST_AT_ONCE = 1024
"""Queries of one call, which a person cannot interrupt."""

NO_HALVES = np.empty(0, dtype=np.float32)
NO_MARKS = np.empty(0, dtype=np.uint64)
NO_ROTATION = np.empty((0, 0), dtype=np.float32)


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
    """Codebooks, rotations, segments, and what was removed of each: see ``holds``."""
    versions: list[tuple[Tensor, int]]
    """How often codebooks and rotations had been changed in place, where counted."""
    words: tuple[Array, ...]
    """Tiles and halves of a ``Coarse``; codebooks turned around, (M, width, K); and
    rotations of queries (dim, dim), or empty, before lists are found and
    before they are compared with codebooks."""
    parts: list[Part]
    """By segment."""
    live: int
    """Items that can be found."""

    @classmethod
    def of(
        cls, coarse: Coarse, cells: Blocks, blocks: Blocks, items: ItemStore
    ) -> "Prepared":
        """What is compared with queries, and the items.

        Args:
            coarse: made of the codebooks of the cells.
            cells: queries as they are compared to find lists, and with what.
            blocks: queries in blocks, and the codebooks of codes.
            items: of the index.
        """
        segments = list(items.segments)
        pairs = zip(items.columns(), segments, strict=True)
        parts = [
            (tuple(columns), (segment.alive, False), (segment.frozen_bounds, 1))
            for columns, segment in pairs
        ]
        rotations = (_rotation(one.rotation) for one in (cells, blocks))
        made_of = *cells[1:], *blocks[1:]
        return cls(
            [*made_of, *segments, *(one.removed for one in segments)],
            [(one, one._version) for one in made_of if _varies(one)],
            (*coarse, turned(blocks.codebooks), *rotations),
            parts,
            sum(one.live for one in segments),
        )

    def holds(self, cells: Blocks, blocks: Blocks, own: Sequence[Segment]) -> bool:
        """Whether words, codebooks and items are still the same."""
        known, count = self.known, len(own)
        if (
            known[0] is not cells.codebooks
            or known[1] is not cells.rotation
            or known[2] is not blocks.codebooks
            or known[3] is not blocks.rotation
            or len(known) != 4 + 2 * count
        ):
            return False
        for one, version in self.versions:
            if one._version != version:
                return False
        for at, segment in enumerate(own, 4):
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
        version = codebooks._version if _varies(codebooks) else None
        return cls(codebooks, version, turned(codebooks))

    def holds(self, codebooks: Tensor) -> bool:
        """Whether codebooks are still the same."""
        same, known = self.codebooks is codebooks, self.version
        return same and (known is None or codebooks._version == known)


class Together(NamedTuple):
    """Queries, and the index whose lists they look into."""

    ready: Prepared
    rows: tuple[Array, Array]
    """As they are compared to find lists, (q, dim), and in blocks, (q, M · width); or
    before they are rotated so."""
    probes: int

    def scan(self, allowed: list[Allowed] | None, best: Best) -> None:
        """Finds lists and tables, and offers all items, or those allowed."""
        compiled: Any = kernels("gradsnap.index.together_compiled")
        parts = self._parts(allowed)

        def work(some: slice) -> None:
            own = self._rows(some)
            lists, tables = compiled.begin(own, self.ready.words, self.probes)
            for part in parts:
                heaps = tuple(best.part(some.start, some.stop))
                compiled.scan_lists(*part, lists, tables, heaps)

        spread(work, _slices(len(best.distances), AT_ONCE))

    def search(self, allowed: list[Allowed] | None, k: int) -> Found | None:
        """All of a search in an index of one segment, in one call a thread.

        Returns:
            Distances, ids and places of the best, (q, k), nearest first, -1 for what
            was not found; None where the queries hold what is no number, or too large
            a one.
        """
        compiled: Any = kernels("gradsnap.index.together_compiled")
        count, (part,), marks = len(self.rows[0]), self.ready.parts, NO_MARKS
        if count < FEW and allowed is not None and isinstance(allowed[0], Marked):
            marks, room = allowed[0].marks, np.empty(allowed[0].count, dtype=bool)
            part = (part[0], (room, allowed[0].share < FEW_ALIVE), part[2])
        elif allowed is not None:
            part = (part[0], allowed[0].counted, part[2])
        fixed = self.ready.words, part, marks, self.probes, k
        if count < FEW:
            found = [compiled.search_lists(self.rows, *fixed)]
        else:
            found = on_threads(
                lambda some: compiled.search_lists(self._rows(some), *fixed),
                _slices(count, _share(count)),
            )
        if not all(len(one[0]) for one in found):
            return None
        return found[0] if len(found) == 1 else _joined(found)

    def _rows(self, some: slice) -> tuple[Array, Array]:
        return self.rows[0][some], self.rows[1][some]

    def _parts(self, allowed: list[Allowed] | None) -> list[Part]:
        """The segments, of which those items count that are allowed."""
        if allowed is None:
            return self.ready.parts
        pairs = zip(self.ready.parts, allowed, strict=True)
        return [(part[0], own.counted, part[2]) for part, own in pairs]


def _share(count: int) -> int:
    """Queries of one call: two calls a thread, which none can interrupt for long."""
    threads = torch.get_num_threads()
    calls = 1 if threads == 1 else 2 * threads
    return min(MOST_AT_ONCE, max(FEW, -(-count // calls)))


def _slices(count: int, share: int) -> list[slice]:
    """Ranges of at most ``share`` that make up ``count``."""
    return [slice(at, min(at + share, count)) for at in range(0, count, share)]


def _joined(found: Sequence[Found]) -> Found:
    distances, keys, places = map(np.concatenate, zip(*found, strict=True))
    return distances, keys, places


def search_whole(rows: Array, books: Array, part: Part, k: int) -> Found | None:
    """All of a search among the items of a part, in one call; as ``Together.search``.

    Args:
        rows: queries in blocks, (q, M · width).
        books: codebooks turned around, (M, width, K).
        part: whose items are one list.
        k: how many to find.
    """
    compiled: Any = kernels("gradsnap.index.together_compiled")
    found: Found = compiled.search_whole(rows, books, part, k)
    return found if len(found[0]) else None


def result_of(found: Found, items: ItemStore) -> SearchResult:
    """Distances, ids and places (q, k) of a kernel as a search gives them."""
    distances = torch.from_numpy(found[0])
    if items.named:
        return SearchResult(items.strings(found[2]), distances)
    return SearchResult(torch.from_numpy(found[1]), distances)


def _varies(x: Tensor | None) -> TypeGuard[Tensor]:
    """Whether it is a tensor that counts how often it was changed in place."""
    return x is not None and not x.is_inference()


def turned(codebooks: Tensor) -> Array:
    """Codebooks (M, K, width) as ``turned_tables`` takes them, (M, width, K)."""
    return array_of(codebooks.transpose(1, 2))


def _rotation(rotation: Tensor | None) -> Array:
    return NO_ROTATION if rotation is None else array_of(rotation.clone())


def array_of(x: Tensor) -> Array:
    """The numbers of a tensor on a CPU, without a copy where they lie in order."""
    plain = x.detach() if x.requires_grad else x  # detaching takes half a microsecond
    numbers: Array = plain.contiguous().numpy()
    return numbers

"""The columns items can be filtered by: metadata, and what follows from it and ids."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.index.roots import BETWEEN, Roots
from gradsnap.index.segments import Segment
from gradsnap.index.where import Condition, check_columns

Array = NDArray[Any]

DATES = ("taken", "time")
"""Columns of dates, the better one first: of the photograph, then of the file."""


class SegmentColumns(Mapping[str, Any]):
    """Pyarrow columns of all n positions of a segment, by name; made when asked for.

    Beside the stored ones: ``id``; of string ids ``path`` (in full), ``folder`` (below
    the root) and ``name`` (of the file); where there are dates ``year`` and ``month``.
    A stored column of such a name comes first.

    Args:
        segment: whose items.
        roots: of the index.
        names: of the columns of all segments; those this one lacks are empty.
    """

    def __init__(
        self, segment: Segment, roots: Roots, names: Sequence[str] = ()
    ) -> None:
        self._segment = segment
        self._roots = roots
        self._more = names

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._stored(), *self._made(), *self._more]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        import pyarrow

        if name in self._stored():
            return _whole(self._segment.table[name])
        if name in self._made():
            return self._made()[name]()
        if name in self._more:
            return pyarrow.nulls(len(self._segment))
        raise KeyError(name)

    def _stored(self) -> list[str]:
        table = self._segment.table
        return [] if table is None else list(table.column_names)

    def _made(self) -> dict[str, Callable[[], Any]]:
        """What makes each column that is not stored."""
        made: dict[str, Callable[[], Any]] = {"id": self._ids}
        if self._segment.names is not None:
            made |= {
                "path": lambda: self._of_names(self._roots.shown),
                "folder": lambda: self._of_names(_folder),
                "name": lambda: self._of_names(posixpath.basename),
            }
        if set(DATES) & set(self._stored()):
            made |= {"year": lambda: self._date("year")}
            made |= {"month": lambda: self._date("month")}
        return made

    def _ids(self) -> Any:
        import pyarrow

        if self._segment.names is None:
            return pyarrow.array(self._segment.all_ids())
        return self._of_names(str)

    def _of_names(self, part: Callable[[str], str]) -> Any:
        import pyarrow

        names = self._segment.names or ()
        return pyarrow.array([storable(part(name)) for name in names], pyarrow.string())

    def _date(self, part: str) -> Any:
        """Year or month of the photograph; of the file where it has no date."""
        from pyarrow import compute

        table = self._segment.table
        dates = [_whole(table[name]) for name in DATES if name in self._stored()]
        return getattr(compute, part)(compute.coalesce(*dates))


def storable(text: str) -> str:
    r"""The text with bytes that are no UTF-8 as ``\udc..``, which a column can hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def known_columns(segments: Sequence[Segment], roots: Roots) -> list[str]:
    """The columns of all segments by name, in order."""
    names = (name for one in segments for name in SegmentColumns(one, roots))
    return list(dict.fromkeys(names))


def positions_where(
    segments: Sequence[Segment], roots: Roots, condition: Condition
) -> list[Array]:
    """By segment the positions of items that count and fulfil a condition, ascending.

    Raises:
        InputError: the condition names a column that no segment has.
    """
    known = known_columns(segments, roots)
    if segments:
        check_columns(condition, known)
    found = []
    for segment in segments:
        mask = condition.mask(SegmentColumns(segment, roots, known))
        mask[segment.removed] = False
        found.append(np.flatnonzero(mask))
    return found


def _folder(identity: str) -> str:
    """The folder of an id below its root."""
    return posixpath.dirname(identity.rpartition(BETWEEN)[2])


def _whole(column: Any) -> Any:
    """A column in one piece."""
    joined = column.combine_chunks()
    return joined.chunk(0) if hasattr(joined, "chunk") and joined.num_chunks else joined

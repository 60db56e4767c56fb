"""What is looked for in an index, and what is found."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


class SearchResult(NamedTuple):
    """The nearest items of each query, nearest first; equal distances by id.

    Where fewer than k items could be found the rest is padding: id -1 (None among
    string ids) at distance infinity.
    """

    ids: Any
    """int64 (q, k); for string ids a list of q lists of k strings."""
    distances: Tensor
    """Squared distances, float32 (q, k), ascending; Hamming distances for bits."""


class Queries(NamedTuple):
    """What is looked for: vectors, or codes that are compared as they are."""

    rows: Tensor
    """Vectors (q, dim), or codes (q, num_codebooks)."""
    coded: bool = False
    """Whether the rows are codes."""
    kept: Array | None = None
    """What the refiner keeps of queries that are items, uint8 (q, row_bytes)."""

    def split(self, count: int) -> Iterator["Queries"]:
        """The queries, so many at a time."""
        for start in range(0, len(self.rows), count):
            part = slice(start, start + count)
            kept = None if self.kept is None else self.kept[part]
            yield Queries(self.rows[part], self.coded, kept)

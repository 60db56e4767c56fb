"""A handful of queries on lists: lists, tables and scan in one compiled call.

Each step in torch takes longer than its numbers do. The kernels are those of the single
steps, so the answers are theirs, to the bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.compiled import kernels
from gradsnap.index.best import Best
from gradsnap.index.columns import Columns
from gradsnap.index.filtering import Allowed
from gradsnap.index.scanning import FEW_ALIVE
from gradsnap.index.segments import Segment

Array = NDArray[Any]

NO_HALVES = np.empty(0, dtype=np.float32)


class Coarse(NamedTuple):
    """What finds the lists of a few queries.

    Centroids by the scores of their tiles, or pairs of codewords of two codebooks by
    the sums of their tables: those have no ``halves``.
    """

    rows: Array
    """The queries, (q, dim), or their two blocks, (q, 2 · width)."""
    tiles: Array
    """Centroids (t, dim, TILE) as in ``Centroids``, or codebooks (2, K, width)."""
    halves: Array
    """Half the squared norms of centroids, (t · TILE,); empty for pairs."""


class Few(NamedTuple):
    """A few queries: what their lists and tables are made of, and room for both."""

    coarse: Coarse
    blocks: tuple[Array, Array]
    """The queries in blocks, (q, M · width), and codebooks (M, K, width)."""
    lists: Array
    """int64 (q, p), filled by ``scan``."""
    tables: Array
    """float32 (q, M, K), filled by ``scan``."""

    @classmethod
    def of(cls, coarse: Coarse, rows: Tensor, codebooks: Tensor, probes: int) -> "Few":
        """Queries in blocks (q, M · width) that look into so many lists each."""
        blocks = array_of(rows), array_of(codebooks)
        count, (books, size, _) = len(blocks[0]), blocks[1].shape
        tables = np.empty((count, books, size), np.float32)
        return cls(coarse, blocks, np.empty((count, probes), np.int64), tables)

    def scan(
        self, columns: Columns, segment: Segment, allowed: Allowed | None, best: Best
    ) -> None:
        """Finds lists and tables, and offers the items of a segment to the heaps."""
        counted = segment.alive, False
        if allowed is not None:
            counted = allowed.mask, allowed.share < FEW_ALIVE
        compiled: Any = kernels("gradsnap.index.few_compiled")
        compiled.scan_few(
            tuple(self.coarse),
            self.blocks,
            (self.lists, self.tables),
            tuple(columns),
            counted,
            (segment.frozen_bounds, 1),
            tuple(best),
        )


def array_of(x: Tensor) -> Array:
    """The numbers of a tensor on a CPU, without a copy where they lie in order."""
    numbers: Array = x.detach().contiguous().numpy()
    return numbers

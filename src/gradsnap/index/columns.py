"""What a scan reads of the items of one segment."""

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradsnap.coders.coder import Coder
from gradsnap.index.shuffles import NO_BLOCKS

Array = NDArray[Any]

WORD = 8
"""Bytes of a number, and so codes that one read brings."""

NO_BIAS = np.empty(0, dtype=np.float32)
NO_IDS32 = np.empty(0, dtype=np.uint32)
NO_IDS64 = np.empty(0, dtype=np.int64)
NO_WORDS = np.empty(0, dtype=np.uint64)


class Columns(NamedTuple):
    """The items of one segment; all arrays are read-only.

    Mapped files are read-only too, so kernels see one type of array.
    """

    codes: Array
    """(n, M), uint8 or uint16."""
    bias: Array
    """What is added to each item's sum, float32 (n,); empty for nothing."""
    ids32: Array
    """Ids as uint32 (n,), or empty."""
    ids64: Array
    """Ids as int64 (n,), or empty; with both empty, ids count up from ``first``."""
    words: Array
    """Codes as one number each, uint64 (n,), or empty: see ``words_of``."""
    first: int
    """The id of item 0 where ids are implicit."""
    base: int
    """The place of item 0 in the whole index."""
    blocks: Array
    """Codes side by side, uint8 (b, 8, s), or empty: see ``shuffles.blocks_of``."""

    @classmethod
    def of(
        cls,
        codes: Array,
        bias: Array,
        ids: Array | None,
        words: Array,
        first: int = 0,
        blocks: Array = NO_BLOCKS,
    ) -> "Columns":
        """Columns of items at place 0.

        Args:
            codes: (n, M), uint8 or uint16.
            bias: float32 (n,), or empty.
            ids: uint32 or int64 (n,); None where they count up from ``first``.
            words: uint64 (n,), or empty.
            first: the id of item 0.
            blocks: uint8 (b, 8, s), or empty.
        """
        short, long = NO_IDS32, NO_IDS64
        if ids is not None and ids.dtype == np.uint32:
            short = ids
        elif ids is not None:
            long = ids
        ids32, ids64 = frozen(short), frozen(long)
        whole = frozen(codes), frozen(bias), ids32, ids64, frozen(words)
        return cls(*whole, first, 0, frozen(blocks))

    def keys(self, positions: Array) -> Array:
        """The ids at positions, int64."""
        for ids in (self.ids32, self.ids64):
            if ids.size:
                return ids[positions].astype(np.int64)
        return positions + self.first


def words_of(packed: Array, coder: Coder) -> Array:
    """Packed codes (n, bytes) as one number each, uint64 (n,), or empty.

    Eight codebooks of 256, a byte each; or, for tables without a negative entry, up to
    16 codebooks of 16: a byte holds two codes then, and missing bytes are zero.
    """
    size, books = coder.codebook_size, coder.num_codebooks
    whole = size == 256 and books == WORD
    paired = size == 16 and books <= 2 * WORD and coder.squared_blocks
    if not (whole or paired) or sys.byteorder != "little":
        return NO_WORDS
    if packed.shape[1] < WORD:
        wide = np.zeros((len(packed), WORD), dtype=np.uint8)
        wide[:, : packed.shape[1]] = packed
        packed = wide
    return np.ascontiguousarray(packed).view(np.uint64)[:, 0]


def frozen(array: Array) -> Array:
    """The same memory, read-only."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view

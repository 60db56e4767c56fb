"""Codes of the last batch that a layer saw, for an update on the very same batch.

That nothing changed in between is told by torch, which counts the changes of a tensor.
"""

from typing import NamedTuple

from torch import Tensor

from gradsnap.arrays import Given


class KnownCodes(NamedTuple):
    """Rows, codebooks, how often both had been changed, and the codes they give."""

    rows: Tensor
    """(n, dim); kept, so that no other rows come to lie where they are."""
    codebooks: Tensor
    """(M, K, width)."""
    changes: tuple[int, int]
    """Of rows and codebooks."""
    codes: Tensor
    """(n, M), int64."""

    def of(self, rows: Given, codebooks: Tensor) -> Tensor | None:
        """The codes (n, M), if these are the same rows and codebooks, or None."""
        same = (
            isinstance(rows, Tensor)
            and codebooks is self.codebooks
            and rows.data_ptr() == self.rows.data_ptr()
            and (rows.shape, rows.stride()) == (self.rows.shape, self.rows.stride())
            and rows.dtype == self.rows.dtype
            and _changes(rows, codebooks) == self.changes
        )
        return self.codes if same else None


def known(rows: Tensor, codebooks: Tensor, codes: Tensor) -> KnownCodes | None:
    """What is known of rows (n, dim); None where changes are not counted."""
    changes = _changes(rows, codebooks)
    if changes is None:
        return None
    return KnownCodes(rows.detach(), codebooks, changes, codes)


def _changes(rows: Tensor, codebooks: Tensor) -> tuple[int, int] | None:
    if rows.is_inference() or codebooks.is_inference():
        return None
    return rows._version, codebooks._version

"""What a beam needs to know of its codebooks, kept as long as they stay the same."""

from typing import Any, Self

import torch
from torch import Tensor

from gradsnap.coders.quantizers.bounds import Bounds, bounds_of
from gradsnap.coders.quantizers.codeword_tables import earlier_pair_tables, word_norms

ROWS_FOR_BOUNDS = 4_096
"""Bounds are made when so many rows were searched: making them takes a while, too."""

MOST_KEPT = 2**24
"""Entries of tables that are kept, 64 MiB in float32; larger ones are made anew."""


class BeamTables:
    """Tables of codebooks (M, K, dim), which must not change.

    Args:
        codebooks: (M, K, dim).
    """

    def __init__(self, codebooks: Tensor) -> None:
        self.codebooks = codebooks
        self.pairs = earlier_pair_tables(codebooks)
        self.norms = word_norms(codebooks)
        self._rows = 0
        self._bounds: Bounds | None = None
        self._tried = False

    def bounds(self, rows: int) -> Bounds | None:
        """Bounds, if they pay for all the rows seen so far and so many more."""
        self._rows += rows
        if not self._tried and self._rows >= ROWS_FOR_BOUNDS:
            self._bounds, self._tried = bounds_of(self.codebooks), True
        return self._bounds


class KeptTables:
    """The tables of the codebooks last asked for; forgotten when copied or sent."""

    def __init__(self) -> None:
        self._last: BeamTables | None = None

    def of(self, codebooks: Tensor) -> BeamTables:
        """Tables of codebooks (M, K, dim), made anew if any of their entries changed.

        Comparing takes a small part of the time of one table, and notices all changes.
        """
        last = self._last
        if last is not None and _same(last.codebooks, codebooks):
            return last
        made = BeamTables(codebooks.detach().clone())
        self._last = made if made.pairs.numel() <= MOST_KEPT else None
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._last = None

    def __deepcopy__(self, memo: object) -> Self:
        return type(self)()


def _same(one: Tensor, other: Tensor) -> bool:
    alike = one.dtype == other.dtype and one.device == other.device
    return alike and torch.equal(one, other)

"""Exhaustive search: every code is compared with every query."""

import functools
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from gradsnap.arrays import Given
from gradsnap.coders.coder import full_precision
from gradsnap.coders.quantizers import Quantizer
from gradsnap.coders.quantizers.block_tables import FEW
from gradsnap.index.best import Best
from gradsnap.index.filtering import scan_allowed
from gradsnap.index.index import Config, Index
from gradsnap.index.probing import is_plain
from gradsnap.index.queries import Queries, SearchResult
from gradsnap.index.scanning import FAST_SIZE, float_tables, list_kernel, scan_all
from gradsnap.index.searching import Parts
from gradsnap.index.together import Turned, array_of, result_of, search_whole

if TYPE_CHECKING:
    from gradsnap.index.fastscan import FastScan


class ExhaustiveIndex(Index):
    """Asymmetric distance computation (ADC) over all codes, for every coder.

    A distance is one table entry per codebook, added up; for the additive family also
    the code's cross term, computed when the codes are first searched. Hashes are
    compared by (weighted) Hamming distance, which is such a sum as well. Product codes
    of 16 codewords a codebook are scanned by FAISS's fast-scan, and what it finds is
    scored again: results equal those of a plain scan.

    Args:
        coder: a quantizer or a hasher; fitted, or fitted by ``fit``.
        refiner: ``HalfPrecision`` or ``LongerCode``, to re-rank the best; None for no
            re-ranking.

    Example:
        >>> import torch, gradsnap as gs
        >>> x = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(dim=8, num_codebooks=4, codebook_size=16)
        >>> index = gs.ExhaustiveIndex(quantizer.fit(x)).add(x)
        >>> ids, distances = index.search(x[:2], k=3)
        >>> len(index), tuple(ids.shape), ids.dtype
        (500, (2, 3), torch.int64)
    """

    kind = "exhaustive"
    _turned: Turned | None = None

    def config(self) -> Config:
        """The constructor's plain arguments."""
        return {}

    @functools.cached_property
    def _fast(self) -> "FastScan | None":
        """FAISS's fast-scan where it can be used; made at the first search."""
        if self.coder.codebook_size != FAST_SIZE:
            return None
        from gradsnap.index.fastscan import FastScan  # FAISS takes a while to import

        return FastScan.of(self.coder, self.items)

    def _at_once(
        self, queries: Given, k: int, allowed: Parts, rerank: int | None
    ) -> SearchResult | None:
        """A few queries among items that were found before: one kernel does it all.

        Those items lie side by side, so that a hundredth of all takes little longer
        than a hundredth of the time.
        """
        if allowed is None or self.refiner is not None or rerank or len(allowed) != 1:
            return None
        some, coder = allowed[0], self.coder
        plain = isinstance(coder, Quantizer) and is_plain(queries, coder.dim)
        few = plain and len(queries) < FEW
        if not few or not some.kept or list_kernel() is None:
            return None
        if type(k) is not int or not 1 <= k <= self.items.segments[0].live:
            return None
        made = cast(Quantizer, coder)._in_blocks(cast(Tensor, queries))
        if made is None or some.runs is not None:
            return None
        if self._turned is None or not self._turned.holds(made[1]):
            self._turned = Turned.of(made[1])
        part = some.part(next(self.items.columns()))
        found = search_whole(array_of(made[0]), self._turned.books, part, k)
        if found is None:
            return None
        if self.items.named:
            there = found[2] >= 0
            found[2][there] = some.positions[found[2][there]]
        return result_of(found, self.items)

    @torch.no_grad()
    def _scan(self, queries: Queries, best: Best, allowed: Parts) -> None:
        rows, coder = queries.rows, self.coder
        with full_precision(rows):  # they were checked when the search began
            made = coder.code_tables(rows) if queries.coded else coder._tables(rows)
        entries = float_tables(made, self.items.constant)
        if not queries.coded and self._fast is not None:
            self._fast.scan(queries.rows, entries, best, allowed)
            return
        segments = self.items.segments
        places = sum(map(len, segments))
        for number, columns in enumerate(self.items.columns()):
            if allowed is None:
                scan_all(columns, segments[number].ranges, entries, best)
            else:
                scan_allowed(columns, allowed[number], entries, best, places)

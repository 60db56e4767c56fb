"""Fast-scan: 16 codewords a codebook fit a register, and FAISS adds 32 codes at once.

Its tables are 8-bit, so it finds candidates only. They are scored again with the exact
tables. Rounding moves a sum by at most ``M / 2`` steps, so an item that is no candidate
is at least as far as the last candidate less that much: where this is farther than the
k-th result, the result is proven to be that of a plain scan. Where it is not, more
candidates are taken, and in the end the plain scan.
"""

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.packing import unpack
from gradsnap.coders.tables import sums_of_own
from gradsnap.index.faiss_forms import ProductForm, product_form
from gradsnap.index.item_store import ItemStore
from gradsnap.index.scanning import FAST_SIZE, Best, Columns, scan_all
from gradsnap.index.segments import Segment

Array = NDArray[Any]

MARGIN = 1e-5
"""Relative slack for FAISS's float tables, which it computes in another order."""

LEAST_CODES = 2048
"""Smaller segments are scanned plainly."""

WIDENINGS = 2
"""How often candidates are quadrupled before the plain scan takes over."""


class FastScan:
    """Scans product codes of 16 codewords a codebook.

    Args:
        coder: a product quantizer, with a rotation or without.
        items: its codes.
    """

    def __init__(self, coder: Coder, items: ItemStore) -> None:
        self.coder = coder
        self.items = items
        self._made: weakref.WeakKeyDictionary[Segment, Any]
        self._made = weakref.WeakKeyDictionary()

    @classmethod
    def of(cls, coder: Coder, items: ItemStore) -> "FastScan | None":
        """Where fast-scan can be used: product quantizers of 16 codewords."""
        small = coder.codebook_size == FAST_SIZE
        fits = coder.num_codebooks <= 256  # sums of 8-bit entries in 16 bits
        if not (small and fits) or product_form(coder) is None:
            return None
        return cls(coder, items)

    def scan(self, queries: Tensor, entries: Tensor, best: Best) -> None:
        """Offers all items to the heaps, as ``scan_all`` does.

        Args:
            queries: (q, dim).
            entries: their tables, float32 (q, M, 16).
            best: heaps, changed in place.
        """
        with _threads():
            self._scan(queries, entries, best)

    def _scan(self, queries: Tensor, entries: Tensor, best: Best) -> None:
        base = 0
        for number, segment in enumerate(self.items.segments):
            if len(segment) < LEAST_CODES:
                self._plain(number, entries, best)
            else:
                self._segment(number, base, queries, entries, best)
            base += len(segment)

    def _plain(self, number: int, entries: Tensor, best: Best) -> None:
        columns = list(self.items.columns())[number]
        scan_all(columns, self.items.segments[number].ranges, entries, best)

    def _segment(
        self, number: int, base: int, queries: Tensor, entries: Tensor, best: Best
    ) -> None:
        segment, k = self.items.segments[number], best.distances.shape[1]
        index, form = self._faiss(segment)
        rows = form.rotate(queries)
        left = np.arange(len(queries))
        width = 2 * k + 64
        for _ in range(WIDENINGS + 1):
            if len(left) == 0 or width >= len(segment):
                break
            approximate, at = index.search(rows[left], width)
            own = _Candidates(segment, base, entries[left], approximate, at)
            proven = own.offer(best, left)
            left, width = left[~proven], 4 * width
        if len(left):
            part = Best(*(column[left] for column in best))
            self._plain(number, entries[left], part)
            for own_column, new in zip(best, part, strict=True):
                own_column[left] = new

    def _faiss(self, segment: Segment) -> tuple[Any, ProductForm]:
        """The segment in FAISS's blocks of 32 codes; made when first searched."""
        form = product_form(self.coder)
        if segment not in self._made and form is not None:
            plain = form.faiss_index()
            plain.add_sa_codes(np.ascontiguousarray(segment.codes))
            make: Any = faiss.IndexPQFastScan
            self._made[segment] = make(plain), form
        made: tuple[Any, ProductForm] = self._made[segment]
        return made


class _Candidates:
    """What fast-scan found for some queries in one segment."""

    def __init__(
        self,
        segment: Segment,
        base: int,
        entries: Tensor,
        approximate: Array,
        at: Array,
    ) -> None:
        self.columns = _plain_columns(segment, base)
        self.segment = segment
        self.entries = entries
        self.approximate = approximate
        self.at = at

    def offer(self, best: Best, queries: Array) -> Array:
        """Puts proven results into the heaps; says for which queries, bool (q,)."""
        exact = self._exact()
        k = best.distances.shape[1]
        keys = self.columns.keys(self.at)
        ranked = _smallest(exact, keys, self.at + self.columns.base, k)
        least = self.approximate[:, -1] - self._slack()
        proven = least > ranked.distances[:, -1]
        for row in np.flatnonzero(proven):
            if len(self.segment) and best.places[queries[row]].max() >= 0:
                best.merge(queries[row], tuple(c[row] for c in ranked))
            else:
                for own, new in zip(best, ranked, strict=True):
                    own[queries[row]] = new[row, ::-1]
        return np.asarray(proven)

    def _exact(self) -> Array:
        """Distances (q, r) by the exact tables; infinite for removed items."""
        num_codebooks = self.entries.shape[1]
        packed = np.asarray(self.segment.codes)[self.at]
        codes = unpack(packed, num_codebooks, FAST_SIZE).astype(np.int64)
        sums = sums_of_own(self.entries, torch.from_numpy(codes))
        exact = sums.clamp_min_(0).numpy()
        if len(self.segment.removed):
            exact[np.isin(self.at, self.segment.removed)] = np.inf
        return np.asarray(exact)

    def _slack(self) -> Array:
        """How much nearer than FAISS says an item can be, (q,)."""
        spans = self.entries.amax(dim=2) - self.entries.amin(dim=2)  # (q, M)
        rounding = spans.amax(dim=1) * (spans.shape[1] / 2 / 255)
        scale = self.entries.abs().amax(dim=2).sum(dim=1)
        return np.asarray((rounding + MARGIN * scale).numpy())


@contextlib.contextmanager
def _threads() -> Iterator[None]:
    """FAISS uses as many threads as torch, for a while."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _plain_columns(segment: Segment, base: int) -> Columns:
    """The segment's ids; its codes stay packed."""
    nothing = np.empty(0, dtype=np.int64)
    ids = nothing if segment.ids is None else np.asarray(segment.ids)
    return Columns(segment.codes, nothing, nothing, ids, segment.first, base)


def _smallest(distances: Array, keys: Array, places: Array, k: int) -> Best:
    """The k smallest of each row by (distance, key), ascending; infinite ones last."""
    found = Best(distances, keys, places).ranked()
    places = np.where(np.isfinite(found.distances), found.places, -1)
    return Best(found.distances[:, :k], found.keys[:, :k], places[:, :k])

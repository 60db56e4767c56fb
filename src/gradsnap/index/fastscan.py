"""Fast-scan: 16 codewords a codebook fit a register, and FAISS adds 32 codes at once.

Its tables are 8-bit, so it finds candidates only. They are scored again with the exact
tables. Rounding moves a sum by at most ``M / 2`` steps, so an item that is no candidate
is at least as far as the last candidate less that much: where this is farther than the
k-th result, the result is proven to be that of a plain scan. Where it is not, more
candidates are taken, and in the end the plain scan.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.packing import unpack
from gradsnap.coders.tables import sums_of_own
from gradsnap.compiled import kernels
from gradsnap.index.best import Best
from gradsnap.index.columns import NO_BIAS, NO_WORDS, Columns
from gradsnap.index.faiss_forms import ProductForm, product_form
from gradsnap.index.filtering import Allowed, scan_allowed
from gradsnap.index.item_store import ItemStore
from gradsnap.index.scanning import FAST_SIZE, kernel, scan_all
from gradsnap.index.segments import Segment

Array = NDArray[Any]

MARGIN = 1e-5
"""Relative slack for FAISS's float tables, which it computes in another order."""

LEAST_CODES = 2048
"""Smaller segments are scanned plainly."""

LEAST_SHARE = 0.15
"""Where a smaller share may be found, those are scanned plainly."""

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

    def scan(
        self,
        queries: Tensor,
        entries: Tensor,
        best: Best,
        allowed: list[Allowed] | None = None,
    ) -> None:
        """Offers all items, or the allowed ones, to the heaps.

        Args:
            queries: (q, dim).
            entries: their tables, float32 (q, M, 16).
            best: heaps, changed in place.
            allowed: the items of each segment that may be found; None for all.
        """
        base = 0
        with faiss_threads():
            for number, segment in enumerate(self.items.segments):
                own = None if allowed is None else allowed[number]
                kept = len(segment) if own is None else len(own.positions)
                if kept < max(LEAST_CODES, LEAST_SHARE * len(segment)):
                    self._plain(number, entries, best, own)
                else:
                    part = Part(segment, base, own)
                    self._segment(number, part, queries, entries, best)
                base += len(segment)

    def _plain(
        self, number: int, entries: Tensor, best: Best, allowed: Allowed | None
    ) -> None:
        columns, segments = list(self.items.columns())[number], self.items.segments
        if allowed is None:
            scan_all(columns, segments[number].ranges, entries, best)
        else:
            scan_allowed(columns, allowed, entries, best, sum(map(len, segments)))

    def _segment(
        self, number: int, part: "Part", queries: Tensor, entries: Tensor, best: Best
    ) -> None:
        index, form = self._faiss(part.segment)
        rows = form.rotate(queries)

        def search(left: Array, width: int) -> tuple[Array, Array]:
            found: tuple[Array, Array] = index.search(rows[left], width)
            return found

        def plain(left: Array, some: Best) -> None:
            self._plain(number, entries[left], some, part.allowed)

        prove(part, entries, best, search, plain)

    def _faiss(self, segment: Segment) -> tuple[Any, ProductForm]:
        """The segment in FAISS's blocks of 32 codes; made when first searched."""
        if segment not in self._made:
            form: Any = product_form(self.coder)
            self._made[segment] = self._pack(segment, form), form
        made: tuple[Any, ProductForm] = self._made[segment]
        return made

    def _pack(self, segment: Segment, form: ProductForm) -> Any:
        """The segment as FAISS's PQFastScan."""
        plain = form.faiss_index()
        plain.add_sa_codes(np.ascontiguousarray(segment.codes))
        make: Any = faiss.IndexPQFastScan
        return make(plain)


def prove(
    part: "Part",
    entries: Tensor,
    best: Best,
    search: Callable[[Array, int], tuple[Array, Array]],
    plain: Callable[[Array, Best], None],
) -> None:
    """Takes candidates, and more of them, until results are proven to be exact.

    Args:
        part: the segment that is searched.
        entries: tables of the queries, float32 (q, M, 16).
        best: heaps of the queries, changed in place.
        search: so many candidates of some queries: distances, and positions, -1 where
            there are no more.
        plain: offers all items to the heaps of some queries.
    """
    left, k = np.arange(len(entries)), best.distances.shape[1]
    width = round((2 * k + 64) / part.share)
    for _ in range(WIDENINGS + 1):
        if len(left) == 0 or width >= len(part.segment):
            break
        own = _Candidates(part, entries[left], *search(left, width))
        proven = own.offer(best, left)
        left, width = left[~proven], 4 * width
    if len(left):
        some = Best(*(column[left] for column in best))
        plain(left, some)
        for own_column, new in zip(best, some, strict=True):
            own_column[left] = new


class Part(NamedTuple):
    """A segment, and which of its items may be found."""

    segment: Segment
    base: int
    """The place of its first item."""
    allowed: Allowed | None

    @property
    def share(self) -> float:
        """How many of the items may be found, 0 to 1."""
        return 1.0 if self.allowed is None else self.allowed.share


class _Candidates:
    """What fast-scan found for some queries in one segment."""

    def __init__(
        self, part: Part, entries: Tensor, approximate: Array, at: Array
    ) -> None:
        self.columns = _plain_columns(part.segment, part.base)
        self.segment, self.allowed = part.segment, part.allowed
        self.entries = entries
        self.approximate = approximate
        self.at = at

    def offer(self, best: Best, queries: Array) -> Array:
        """Puts proven results into the heaps; says for which queries, bool (q,)."""
        compiled = kernels("gradsnap.index.fastscan_compiled") if kernel() else None
        least = self.approximate[:, -1] - self._slack()
        if compiled is not None:
            frozen = tuple(self.columns)
            candidates, tables = (self.at, least), self.entries.numpy()
            return np.asarray(
                compiled.rescore(
                    frozen, self._alive(), candidates, tables, queries, tuple(best)
                )
            )
        exact = self._exact()
        k = best.distances.shape[1]
        keys = self.columns.keys(self.at)
        ranked = _smallest(exact, keys, self.at + self.columns.base, k)
        proven = (least > ranked.distances[:, -1]) | (self.at[:, -1] < 0)
        for row in np.flatnonzero(proven):
            if len(self.segment) and best.places[queries[row]].max() >= 0:
                best.merge(queries[row], tuple(c[row] for c in ranked))
            else:
                for own, new in zip(best, ranked, strict=True):
                    own[queries[row]] = new[row, ::-1]
        return np.asarray(proven)

    def _alive(self) -> Array:
        """Which items may be found, bool (n,); empty for all."""
        return self.segment.alive if self.allowed is None else self.allowed.mask

    def _exact(self) -> Array:
        """Distances (q, r) by the exact tables; infinite for what may not be found."""
        num_codebooks = self.entries.shape[1]
        packed = np.asarray(self.segment.codes)[self.at]
        codes = unpack(packed, num_codebooks, FAST_SIZE).astype(np.int64)
        sums = sums_of_own(self.entries, torch.from_numpy(codes))
        exact = sums.clamp_min_(0).numpy()
        if len(self.segment.removed):
            exact[np.isin(self.at, self.segment.removed)] = np.inf
        if self.allowed is not None:
            exact[~self.allowed.mask[self.at]] = np.inf
        exact[self.at < 0] = np.inf
        return np.asarray(exact)

    def _slack(self) -> Array:
        """How much nearer than FAISS says an item can be, (q,)."""
        spans = self.entries.amax(dim=2) - self.entries.amin(dim=2)  # (q, M)
        rounding = spans.amax(dim=1) * (spans.shape[1] / 2 / 255)
        scale = self.entries.abs().amax(dim=2).sum(dim=1)
        return np.asarray((rounding + MARGIN * scale).numpy())


@contextlib.contextmanager
def faiss_threads() -> Iterator[None]:
    """FAISS uses as many threads as torch, for a while."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _plain_columns(segment: Segment, base: int) -> Columns:
    """The segment's ids; its codes stay packed."""
    codes, ids = np.asarray(segment.codes), segment.ids
    own = Columns.of(codes, NO_BIAS, ids, NO_WORDS, segment.first)
    return own._replace(base=base)


def _smallest(distances: Array, keys: Array, places: Array, k: int) -> Best:
    """The k smallest of each row by (distance, key), ascending; infinite ones last."""
    found = Best(distances, keys, places).ranked()
    places = np.where(np.isfinite(found.distances), found.places, -1)
    return Best(found.distances[:, :k], found.keys[:, :k], places[:, :k])

"""Fast-scan for lists: codes of 16 codewords, packed by list in FAISS's blocks of 32.

As in ``fastscan``, FAISS finds candidates in the lists of a query by 8-bit tables; they
are scored again, and the same bound proves that none was missed.
"""

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.index.best import Best
from gradsnap.index.faiss_forms import ProductForm
from gradsnap.index.fastscan import LEAST_CODES, FastScan, Part, faiss_threads, prove
from gradsnap.index.filtering import Allowed
from gradsnap.index.item_store import ItemStore
from gradsnap.index.lists import scan_segment
from gradsnap.index.segments import Segment

Array = NDArray[Any]

LEAST_SHARE = 0.15
"""Where a smaller share of items may be found, lists are scanned plainly."""


class ListedFastScan(FastScan):
    """Scans the lists of product codes of 16 codewords a codebook.

    Args:
        coder: a product quantizer, with a rotation or without.
        items: its codes.
        num_lists: into which they are sorted.
    """

    def __init__(self, coder: Coder, items: ItemStore, num_lists: int) -> None:
        super().__init__(coder, items)
        self.num_lists = num_lists

    @classmethod
    def of_lists(
        cls, coder: Coder, items: ItemStore, num_lists: int
    ) -> "ListedFastScan | None":
        """Where fast-scan can be used: product quantizers of 16 codewords."""
        fits = FastScan.of(coder, items) is not None
        return cls(coder, items, num_lists) if fits else None

    def scan_lists(
        self,
        queries: Tensor,
        lists: Array,
        entries: Tensor,
        best: Best,
        allowed: list[Allowed] | None,
    ) -> None:
        """Offers the items of each query's lists to the heaps.

        Args:
            queries: (q, dim).
            lists: of each query, int64 (q, p).
            entries: tables of the queries, float32 (q, M, 16).
            best: heaps, changed in place.
            allowed: the items of each segment that may be found; None for all.
        """
        base = 0
        with faiss_threads():
            for number, segment in enumerate(self.items.segments):
                own = None if allowed is None else allowed[number]
                part = Part(segment, base, own)
                if len(segment) < LEAST_CODES or part.share < LEAST_SHARE:
                    self._scan_plainly(number, own, lists, entries, best)
                else:
                    self._scan_fast(number, part, queries, lists, entries, best)
                base += len(segment)

    def _scan_fast(
        self,
        number: int,
        part: Part,
        queries: Tensor,
        lists: Array,
        entries: Tensor,
        best: Best,
    ) -> None:
        index, form = self._faiss(part.segment)
        rows, nothing = form.rotate(queries), np.zeros(lists.shape, np.float32)

        def search(left: Array, width: int) -> tuple[Array, Array]:
            index.nprobe = lists.shape[1]
            found: tuple[Array, Array] = index.search_preassigned(
                rows[left], width, lists[left], nothing[left]
            )
            return found

        def plain(left: Array, some: Best) -> None:
            self._scan_plainly(number, part.allowed, lists[left], entries[left], some)

        prove(part, entries, best, search, plain)

    def _scan_plainly(
        self,
        number: int,
        allowed: Allowed | None,
        lists: Array,
        entries: Tensor,
        best: Best,
    ) -> None:
        columns = list(self.items.columns())[number]
        segment = self.items.segments[number]
        scan_segment(columns, segment, allowed, lists, entries, best)

    def _pack(self, segment: Segment, form: ProductForm) -> Any:
        """The segment as FAISS's IVFPQFastScan; its ids are positions."""
        quantizer = form.faiss_quantizer()
        sizes = (quantizer.d, self.num_lists, quantizer.M, quantizer.nbits)
        plain = faiss.IndexIVFPQ(faiss.IndexFlatL2(quantizer.d), *sizes)
        plain.pq, plain.by_residual, plain.is_trained = quantizer, False, True
        codes, bounds = np.asarray(segment.codes), np.asarray(segment.bounds)
        stored: Any = plain.invlists
        for number in np.flatnonzero(np.diff(bounds)):
            start, stop = bounds[number], bounds[number + 1]
            own = np.ascontiguousarray(codes[start:stop])
            at = np.arange(start, stop, dtype=np.int64)
            pointers = faiss.swig_ptr(at), faiss.swig_ptr(own)
            stored.add_entries(int(number), len(at), *pointers)
        plain.ntotal = len(segment)
        make: Any = faiss.IndexIVFPQFastScan
        return make(plain)

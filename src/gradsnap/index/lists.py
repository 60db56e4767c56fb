"""Items sorted into lists: a query looks into the nearest lists only."""

from abc import abstractmethod
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.arrays import Given
from gradsnap.coders.checks import checked_rows
from gradsnap.coders.coder import Coder, full_precision
from gradsnap.coders.hashers import Hasher
from gradsnap.coders.quantizers import Quantizer
from gradsnap.coders.quantizers.block_tables import Blocks
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError, NotFittedError
from gradsnap.index.best import Best
from gradsnap.index.columns import Columns
from gradsnap.index.filtering import Allowed
from gradsnap.index.index import Index
from gradsnap.index.probing import MOST_SMALLEST, is_ordered, is_plain
from gradsnap.index.queries import Queries, SearchResult
from gradsnap.index.rerank import Refiner
from gradsnap.index.scanning import Lists, float_tables, list_kernel, scan_own
from gradsnap.index.searching import Parts
from gradsnap.index.segments import GivenIds, Segment
from gradsnap.index.together import (
    NO_HALVES,
    Coarse,
    Prepared,
    Together,
    array_of,
    result_of,
    turned,
)
from gradsnap.index.tuning import Tuning, tune

Array = NDArray[Any]


class ListedIndex(Index):
    """Base of the indexes with lists.

    Args:
        coder: a quantizer of the vectors, or of their residuals; fitted, or fitted by
            ``fit``.
        residual: whether codes are of what a list's centroid leaves of a vector
            (smaller, so they err less) or of the vector itself (tables are made once
            a query).
        probes: lists a query looks into; ``tune`` finds how many a recall needs.
        refiner: as for ``ExhaustiveIndex``.
    """

    coder: Quantizer
    num_lists: int

    def __init__(
        self,
        coder: Coder,
        *,
        residual: bool,
        probes: int,
        refiner: Refiner | None,
    ) -> None:
        if not isinstance(coder, Quantizer):
            what = "makes bits" if isinstance(coder, Hasher) else "cannot decode"
            raise InputError(
                "lists need a quantizer, whose codes stand for vectors; a "
                f"{type(coder).__name__} {what}: choose ExhaustiveIndex"
            )
        super().__init__(coder, refiner=refiner)
        self.residual = residual
        self._probes = 0
        self.probes = probes
        self._ready: Prepared | None = None

    @property
    def probes(self) -> int:
        """Lists a query looks into."""
        return self._probes

    @probes.setter
    def probes(self, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"probes must be a whole number from 1 on, got {value!r}")
        self._probes = value

    # --- what a child writes ------------------------------------------------

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether there are centroids."""

    @abstractmethod
    def _fit_lists(self, x: Tensor) -> None:
        """Learns the centroids from x (n, dim)."""

    @abstractmethod
    def _nearest_lists(self, x: Tensor, count: int) -> Tensor:
        """The nearest lists of x (n, dim), nearest first: int64 (n, count)."""

    def _in_cells(self, x: Tensor) -> Blocks | None:
        """Rows of x (n, dim), and what they are compared with to find lists.

        None where no kernel finds them.
        """
        return None

    def _coarse(self, words: Tensor) -> Coarse:
        """What ``_in_cells`` compares rows with, for a kernel."""
        return Coarse(turned(words), NO_HALVES)

    @abstractmethod
    def _centroids_of(self, lists: Tensor) -> Tensor:
        """Centroids (n, dim) of lists (n,)."""

    def _left(self, x: Tensor, lists: Tensor) -> Tensor:
        """What the centroids of lists (n,) leave of x (n, dim)."""
        return x - self._centroids_of(lists)

    def _whole(self, left: Tensor, lists: Tensor) -> Tensor:
        """The vectors (n, dim) of which ``_left`` leaves ``left``."""
        return left + self._centroids_of(lists)

    # --- the verbs ----------------------------------------------------------

    @property
    def learns(self) -> bool:
        """Whether ``fit`` still has lists, or the coder, to learn."""
        return not (self.fitted and self.coder.fitted)

    @torch.no_grad()
    def fit(self, x: Given, labels: Given | None = None) -> Self:
        """Learns from x (n, dim) the lists and the quantizer, where there are none yet.

        The quantizer is fitted to residuals where codes are of residuals.
        """
        if len(self):
            raise InputError(f"the index holds {len(self)} items: fit comes first")
        x = checked_rows(x, self.coder.dim, self.coder.dtype)
        if not self.fitted:
            self._fit_lists(x)
        if not self.coder.fitted:
            lists = self._nearest_lists(x, 1)[:, 0]
            self.coder.fit(self._left(x, lists) if self.residual else x, labels)
        return self

    def lists_of(self, vectors: Given) -> Tensor:
        """The list each of vectors (n, dim) falls into, int64 (n,)."""
        return self._nearest_lists(self._checked(vectors), 1)[:, 0]

    def tune(self, queries: Given, truth: Any, target: float) -> Tuning:
        """Sets ``probes`` to the fewest that reach a recall.

        Args:
            queries: (q, dim).
            truth: the ids to be found, (q, k), as ``search`` returns them.
            target: the wanted share of them among the first k results, 0 to 1.

        Returns:
            The probes chosen, and recall against time for each number tried.
        """
        return tune(self, queries, truth, target)

    # --- the parts ----------------------------------------------------------

    def _checked(self, vectors: Given) -> Tensor:
        if not self.fitted:
            raise self._not_fitted()
        return super()._checked(vectors)

    def _encode(self, vectors: Tensor) -> tuple[Tensor, Tensor | None]:
        lists = self._nearest_lists(vectors, 1)[:, 0]
        coded = self._left(vectors, lists) if self.residual else vectors
        return self.coder.encode(coded), lists

    def _decode(self, quantizer: Quantizer, codes: Tensor, lists: Tensor) -> Tensor:
        parts = quantizer.decode(codes)
        return self._whole(parts, lists) if self.residual else parts

    def _item_queries(self, ids: GivenIds) -> Queries:
        """Items by their reconstructions: their lists are found by vectors."""
        return Queries(self.reconstruct(ids))

    def _not_fitted(self) -> NotFittedError:
        return NotFittedError(
            f"this {type(self).__name__} has no centroids yet: call fit(embeddings), "
            "or give it centroids"
        )

    def _tables_per_query(self) -> int:
        return min(self.probes, self.num_lists) if self.residual else 1

    def _at_once(
        self, queries: Given, k: int, allowed: Parts, rerank: int | None
    ) -> SearchResult | None:
        if self.refiner is not None or rerank or len(self.items.segments) != 1:
            return None
        made = self._together(queries) if is_plain(queries, self.coder.dim) else None
        if made is None or type(k) is not int or not 1 <= k <= made.ready.live:
            return None
        found = made.search(allowed, k)
        return None if found is None else result_of(found, self.items)

    def _scan(self, queries: Queries, best: Best, allowed: Parts) -> None:
        made = self._together(queries.rows)
        if made is None:
            self._scan_many(queries, best, allowed)
        else:
            made.scan(allowed, best)

    def _together(self, rows: Tensor) -> Together | None:
        """What a kernel needs that does all for queries; None if it cannot."""
        count = min(self._probes, self.num_lists)
        if not self._is_ordered(rows, count) or list_kernel() is None:
            return None
        blocks, cells = self.coder._unrotated(rows), self._in_cells(rows)
        if blocks is None or cells is None:
            return None
        near = array_of(cells.rows)
        own = near if blocks.rows is cells.rows else array_of(blocks.rows)
        return Together(self._prepared(cells, blocks), (near, own), count)

    def _is_ordered(self, rows: Tensor, count: int) -> bool:
        """Whether tables of rows are made in order of dimension, as kernels do."""
        several = not self.residual and 1 < count <= MOST_SMALLEST
        return several and is_ordered(rows, count)

    def _tables(self, rows: Tensor, count: int) -> Tables:
        """Tables of rows, to the bit as a kernel makes them that does all."""
        blocks = self.coder._unrotated(rows) if self._is_ordered(rows, count) else None
        if blocks is None:
            return self.coder._tables(rows)
        return Tables(blocks.tables(), rows.new_zeros(len(rows)))

    def _prepared(self, cells: Blocks, blocks: Blocks) -> Prepared:
        """What kernels need of the index as it is; made once."""
        ready = self._ready
        if ready is None or not ready.holds(cells, blocks, self.items.segments):
            coarse = self._coarse(cells.codebooks)
            ready = self._ready = Prepared.of(coarse, cells, blocks, self.items)
        return ready

    @torch.no_grad()
    def _scan_many(self, queries: Queries, best: Best, allowed: Parts) -> None:
        count = min(self.probes, self.num_lists)
        rows = queries.rows
        lists = self._nearest_lists(rows, count)  # (q, p)
        if self.residual:
            rows = self._left(rows.repeat_interleave(count, 0), lists.flatten())
        with full_precision(rows):  # they were checked when the search began
            made = self._tables(rows, count)
        entries = float_tables(made, self.items.constant)
        numbers = lists.cpu().numpy()
        for at, columns in enumerate(self.items.columns()):
            own = None if allowed is None else allowed[at]
            segment = self.items.segments[at]
            scan_segment(columns, segment, own, numbers, entries, best)


def scan_segment(
    columns: Columns,
    segment: Segment,
    allowed: Allowed | None,
    lists: Array,
    entries: Tensor,
    best: Best,
) -> None:
    """Scans the lists (q, p) of each query in a segment; tables as in ``scan_own``."""
    own = Lists(lists, segment.frozen_bounds)
    if allowed is None:
        scan_own(columns, segment.alive, own, entries, best)
    else:
        scan_own(columns, allowed.mask, own, entries, best, allowed.share)

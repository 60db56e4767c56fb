"""What an index is asked: the nearest items, and what is known of some."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.arrays import Given
from gradsnap.coders.checks import checked_rows
from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError
from gradsnap.index.best import Best, joined
from gradsnap.index.conditions import Conditions
from gradsnap.index.filtering import Allowed, Filter, parts_of
from gradsnap.index.item_store import ItemStore
from gradsnap.index.queries import Queries, SearchResult
from gradsnap.index.rerank import Refiner, require_same_dim
from gradsnap.index.roots import Roots
from gradsnap.index.segment_columns import known_columns
from gradsnap.index.segments import GivenIds, Ids, checked_ids

Array = NDArray[Any]

Parts = list[Allowed] | None
"""What may be found in each segment; None for everything."""

TABLE_ENTRIES = 2**24
"""Table entries held at once while searching: 64 MiB."""

MOST_RESULTS = 2**31 - 1
"""Of a query; what the index cannot fill is padding."""

RERANK_FACTOR = 10
"""How many times k are re-ranked unless ``search`` is told."""


class Searchable(ABC):
    """The half of an index that reads: searches, reconstructions, metadata.

    Args:
        coder: what makes codes of vectors, and tables of queries.
        refiner: what re-ranking compares with; None for no re-ranking.
    """

    def __init__(self, coder: Coder, *, refiner: Refiner | None = None) -> None:
        if refiner is not None:
            require_same_dim(coder.dim, refiner)
        self.coder = coder
        self.refiner = refiner
        self.items = ItemStore(coder)
        self.roots = Roots()
        """The folders that the files of the index lie in."""
        self._conditions = Conditions()

    # --- what a child writes ------------------------------------------------

    @abstractmethod
    def _scan(self, queries: Queries, best: Best, allowed: Parts) -> None:
        """Offers the items to the heaps; ``allowed`` are those of each segment."""

    def _at_once(
        self, queries: Given, k: int, allowed: Parts, rerank: int | None
    ) -> SearchResult | None:
        """``search`` where one kernel can do all of it, checks included; else None."""
        return None

    def _checked(self, vectors: Given) -> Tensor:
        """Vectors or queries this index can take."""
        self.coder._require_fitted()
        return checked_rows(vectors, self.coder.dim, self.coder.dtype)

    def _queries(self, queries: Given) -> Queries:
        """What ``search`` was given, checked."""
        return Queries(self._checked(queries))

    def _item_queries(self, ids: GivenIds) -> Queries:
        """Items as queries: here by their codes."""
        codes, _ = self.items.codes_of(checked_ids(ids))
        return Queries(codes, coded=True)

    def _decode(self, quantizer: Quantizer, codes: Tensor, lists: Tensor) -> Tensor:
        """Reconstructions (n, dim) of codes (n, M) in lists (n,)."""
        return quantizer.decode(codes)

    def _tables_per_query(self) -> int:
        """How many tables a query needs."""
        return 1

    # --- the verbs ----------------------------------------------------------

    def __len__(self) -> int:
        return len(self.items)

    def search(
        self,
        queries: Given,
        k: int,
        within: GivenIds | Filter | None = None,
        rerank: int | None = None,
        *,
        where: str | None = None,
    ) -> SearchResult:
        """The k nearest items of each query, nearest first.

        Args:
            queries: (q, dim).
            k: how many; what the index cannot fill is padded with id -1 (None among
                strings) at distance infinity.
            within: ids to search among, or a ``filter`` of them; None for all.
            rerank: how many of the scan's best are compared again where the index has
                a refiner; ten times k if not given, 0 for none.
            where: a condition on metadata that results must fulfil, such as
                ``label = "cat" and year > 2020``; see ``gradsnap.index.where``.

        Raises:
            InputError: an id is not in the index, or the condition cannot be read or
                names a column that is not there.
        """
        allowed = self._allowed(within, where)
        found = self._at_once(queries, k, allowed, rerank)
        if found is not None:
            return found
        return self._nearest(self._queries(queries), k, allowed, rerank)

    def search_items(
        self,
        ids: GivenIds,
        k: int,
        within: GivenIds | Filter | None = None,
        rerank: int | None = None,
        *,
        where: str | None = None,
    ) -> SearchResult:
        """The k nearest items of items of the index, themselves among them.

        Items are compared by their codes, and by what the refiner keeps of them; the
        rest is as in ``search``.
        """
        queries = self._item_queries(ids)
        if self.refiner is not None:
            places = self.items.places(checked_ids(ids))
            kept = self.items.fine_rows(places, self.refiner.row_bytes)
            queries = queries._replace(kept=kept)
        return self._nearest(queries, k, self._allowed(within, where), rerank)

    @torch.no_grad()
    def reconstruct(self, ids: GivenIds) -> Tensor:
        """What the codes of items say their vectors are, (n, dim).

        Raises:
            InputError: an id is not in the index, or codes stand for no vectors.
        """
        if not isinstance(self.coder, Quantizer):
            raise InputError(
                f"the codes of a {type(self.coder).__name__} stand for no vectors: "
                "search_items finds what is near an item"
            )
        return self._decode(self.coder, *self.items.codes_of(checked_ids(ids)))

    def metadata(self, ids: GivenIds) -> list[dict[str, Any]]:
        """The metadata of items: for each id its columns by name."""
        return self.items.metadata(checked_ids(ids))

    @property
    def columns(self) -> list[str]:
        """What items can be filtered by: metadata, and what follows from ids."""
        return known_columns(self.items.segments, self.roots)

    def select(self, where: str | None = None) -> Ids:
        """The ids of all items, or of those that fulfil a condition, int64 or strings.

        Raises:
            InputError: the condition cannot be read, or names a column that is not
                there.
        """
        parts = self._allowed(None, where)
        at = None if parts is None else [part.positions for part in parts]
        return self.items.ids_at(at)

    def filter(
        self, within: GivenIds | None = None, where: str | None = None
    ) -> Filter:
        """Items to search among, found once for many searches.

        Args:
            within: their ids; None for all.
            where: a condition on metadata they must fulfil; None for none.

        Example:
            >>> import torch, gradsnap as gs
            >>> index = gs.HammingIndex(8)
            >>> hashes = torch.tensor([[0], [1], [255]], dtype=torch.uint8)
            >>> some = index.add(hashes).filter([1, 2])
            >>> index.search(hashes[:1], k=1, within=some).ids
            tensor([[1]])

        Raises:
            InputError: as ``search`` does.
        """
        parts = self._allowed(within, where)
        segments = self.items.segments
        if parts is None:
            parts = parts_of(segments, [one.counted() for one in segments])
        return Filter(parts, segments)

    def path_of(self, item: int | str) -> Path | None:
        """The file of an item, there or not.

        None if the item is not in the index, if its id is a number, if no root is known
        of it, and if it lies outside of its root: by ``..``, or by a link that leads
        elsewhere than when the root was indexed.
        """
        if not isinstance(item, str) or item not in self:
            return None
        return self.roots.path_of(item)

    def __contains__(self, item: object) -> bool:
        """Whether an id is in the index."""
        if isinstance(item, str):
            return bool(len(self.items.known([item])))
        whole = isinstance(item, int) and 0 <= item < 2**63 - 1
        return whole and bool(len(self.items.known(np.array([item]))))

    # --- the parts ----------------------------------------------------------

    def _nearest(
        self, queries: Queries, k: int, allowed: Parts, rerank: int | None
    ) -> SearchResult:
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_RESULTS:
            raise InputError(
                f"k must be a whole number from 1 to {MOST_RESULTS}, got {k!r}"
            )
        wide = self._width(k, rerank)
        size = self.coder.num_codebooks * self.coder.codebook_size
        rows = max(1, TABLE_ENTRIES // (size * self._tables_per_query()))
        if 0 < queries.rows.shape[0] <= rows:
            best = self._best_of(queries, wide, k, allowed)
        else:
            best = joined(
                [self._best_of(part, wide, k, allowed) for part in queries.split(rows)]
                or [Best.empty(0, k)],
                axis=0,
            )
        ids, distances = best.tensors()
        if self.items.named:
            return SearchResult(self.items.strings(best.places), distances)
        return SearchResult(ids, distances)

    def _allowed(self, within: GivenIds | Filter | None, where: str | None) -> Parts:
        """What may be found, by segment; None for everything."""
        if within is None and where is None:
            return None
        segments = self.items.segments
        parts: Parts = None
        if isinstance(within, Filter):
            parts = within.parts(segments)
        elif within is not None:
            parts = self.items.allowed(within)
        if where is None:
            return parts
        fitting = self._conditions.allowed(where, segments, self.roots)
        if parts is None:
            return fitting
        pairs = zip(parts, (one.positions for one in fitting), strict=True)
        return parts_of(segments, [at[one.mask[at]] for one, at in pairs])

    def _width(self, k: int, rerank: int | None) -> int:
        """How many the scan has to find for re-ranking; 0 for none."""
        if rerank is not None and self.refiner is None and rerank != 0:
            raise InputError(
                f"rerank={rerank} needs an index with a refiner: HalfPrecision or "
                "LongerCode"
            )
        if self.refiner is None or rerank == 0:
            return 0
        return max(k, RERANK_FACTOR * k if rerank is None else rerank)

    def _best_of(self, queries: Queries, wide: int, k: int, allowed: Parts) -> Best:
        count = queries.rows.shape[0]  # ``len`` of a tensor takes a microsecond
        width = min(wide or k, max(len(self), 1))  # heaps of what there can be
        best = Best.empty(count, width)
        self._scan(queries, best, allowed)
        best = best.sorted()
        if wide and self.refiner is not None:
            best = self._rerank(self.refiner, queries, best)
        if width > k:
            return Best(*(column[:, :k] for column in best))
        if width < k:
            return joined([best, Best.empty(count, k - width)], axis=1)
        return best

    def _rerank(self, refiner: Refiner, queries: Queries, best: Best) -> Best:
        """The same items, ordered by the refiner's distances."""
        rows = self.items.fine_rows(best.places, refiner.row_bytes)
        if queries.kept is None:
            found = refiner.distances(queries.rows.cpu(), rows)
        else:
            found = refiner.distances_of_kept(queries.kept, rows)
        distances = np.where(best.places < 0, np.float32(np.inf), found.numpy())
        return Best(distances, best.keys, best.places).ranked()

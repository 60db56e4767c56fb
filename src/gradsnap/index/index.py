"""What all indexes share: the verbs, ids, filters, re-ranking and saving."""

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.packing import pack
from gradsnap.coders.quantizers.quantizer import Quantizer
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError
from gradsnap.index.identifiers import GivenIds, Ids, checked_ids, narrow, new_ids
from gradsnap.index.items import Items
from gradsnap.index.metadata import Metadata, checked_metadata
from gradsnap.index.rerank import Refiner
from gradsnap.index.results import Best, SearchResult
from gradsnap.index.segments import Segment, sorted_by_list
from gradsnap.strings import PackedStrings

Array = NDArray[Any]

TABLE_ENTRIES = 2**24
"""Table entries held at once while searching: 64 MiB."""

RERANK_FACTOR = 10
"""How many times k are re-ranked unless ``search`` is told."""


class Coder(Protocol):
    """What turns queries into tables: a quantizer, or packed bits."""

    num_codebooks: int
    codebook_size: int

    def tables(self, queries: Any, /) -> Tables:
        """Look-up tables of queries."""

    def cross_terms(self, codes: Tensor, /) -> Tensor:
        """What the tables leave out, (n,)."""


class Index(ABC):
    """Items that are found by their codes.

    ``add`` gives the items ids, whole numbers or strings, ``search`` returns them.
    Distances are added up in float32, in the order of the codebooks; equal distances
    are ordered by id (strings: by when they were added), so results do not depend on
    how items were added or on which engine scans.

    Args:
        coder: what makes tables of queries.
        refiner: what re-ranking compares with; None for no re-ranking.
    """

    kind: ClassVar[str]
    num_lists: int | None = None
    """Into how many lists items are sorted; None for one sequence."""

    def __init__(self, coder: Coder, refiner: Refiner | None) -> None:
        self.coder = coder
        self.refiner = refiner
        self.items = Items(coder)
        self.origin: Any = None
        self.notes: dict[str, str] = {}
        """Words kept with the index, such as where its model lies."""
        self.fingerprint: str | None = None

    # --- what a child writes ------------------------------------------------

    @abstractmethod
    def _checked(self, vectors: Any) -> Any:
        """Vectors or queries this index can take."""

    @abstractmethod
    def _scan(self, queries: Any, best: Best, allowed: list[Array] | None) -> None:
        """Offers the items to the heaps; ``allowed`` are positions by segment."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's plain arguments."""

    def state(self) -> dict[str, Tensor]:
        """Tensors the index learned beside the codebooks."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        if state:
            raise InputError(f"this index has no place for {', '.join(state)}")

    def _tables_per_query(self) -> int:
        """How many tables a query needs."""
        return 1

    # --- the verbs ----------------------------------------------------------

    def __len__(self) -> int:
        return len(self.items)

    def remove(self, ids: GivenIds) -> Self:
        """Removes items; memory and disk are freed by ``compact``.

        Raises:
            InputError: an id is not in the index; nothing is removed then.
        """
        for segment, at in zip(self.items.segments, self._positions(ids), strict=True):
            segment.remove(at)
        return self

    def compact(self) -> Self:
        """Puts all items that count into one segment."""
        self.items.compact()
        return self

    def search(
        self,
        queries: Any,
        k: int,
        within: GivenIds | None = None,
        rerank: int | None = None,
    ) -> SearchResult:
        """The k nearest items of each query, nearest first.

        Args:
            queries: (q, dim).
            k: how many; what the index cannot fill is padded with id -1 (None among
                strings) at distance infinity.
            within: ids to search among; None for all.
            rerank: how many of the scan's best are compared again where the index has
                a refiner; ten times k if not given, 0 for none.
        """
        queries = self._checked(queries)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InputError(f"k must be a whole number of at least 1, got {k!r}")
        wide = self._width(k, rerank)
        allowed = None if within is None else self._positions(within)
        size = self.coder.num_codebooks * self.coder.codebook_size
        rows = max(1, TABLE_ENTRIES // (size * self._tables_per_query()))
        found = [
            self._found(part, wide, k, allowed) for part in queries.split(rows)
        ] or [Best.empty(0, k)]
        best = Best(*(np.concatenate(column) for column in zip(*found, strict=True)))
        return self._result(best)

    def metadata(self, ids: GivenIds) -> list[dict[str, Any]]:
        """The metadata of items: for each id its columns by name."""
        found: list[dict[str, Any]] = [{} for _ in ids]
        for segment, (at, rows) in zip(
            self.items.segments, self.items.find(checked_ids(ids)), strict=True
        ):
            if segment.table is not None:
                taken = segment.table.take(at).to_pylist()
                for row, values in zip(rows.tolist(), taken, strict=True):
                    found[row] = values
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a folder; see ``load_index``.

        A folder that is new is written beside and renamed. One this index was loaded
        from gets what was added and removed since; any other index there is replaced.
        A crash at any moment leaves the old index or the new one.

        Raises:
            InputError: it cannot be written there, another process is writing there,
                or has done so since this index was loaded.
        """
        from gradsnap.index.storage import save_index

        save_index(self, path)

    def verify(self) -> Self:
        """Compares every file the index was loaded from with its checksum.

        Raises:
            FileFormatError: a file was changed.
        """
        from gradsnap.index.storage import verify_index

        verify_index(self)
        return self

    def check_codebooks(self) -> None:
        """Refuses codebooks that are not those the items were encoded with."""
        if not isinstance(self.coder, Quantizer):
            return
        current = self.coder.fingerprint()
        if len(self.items.segments) == 0:
            self.fingerprint = current
        elif self.fingerprint != current:
            raise InputError(
                "the quantizer's codebooks changed since items were added: their codes "
                "mean something else now; make a new index and add the vectors again"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items, {self.coder!r})"

    # --- the parts ----------------------------------------------------------

    def _append(
        self,
        codes: Tensor,
        ids: GivenIds | None,
        metadata: Metadata | None,
        lists: Array | None = None,
        fine: Array | None = None,
    ) -> None:
        count = len(codes)
        packed = pack(codes.cpu().numpy(), self.coder.codebook_size)
        checked = None if ids is None else new_ids(ids, count)
        table = None if metadata is None else checked_metadata(metadata, count)
        if count == 0:
            return
        self.check_codebooks()
        segment = Segment(packed, fine=fine, stored=table)
        self._identify(segment, checked)
        if lists is not None and self.num_lists is not None:
            segment = sorted_by_list(segment, lists, self.num_lists)
        self.items.append(segment)

    def _identify(self, segment: Segment, ids: Ids | None) -> None:
        """Gives the segment's items their ids, or the next free numbers."""
        named = self.items.named
        if named is not None and named != isinstance(ids, list):
            have, got = ("strings", "numbers") if named else ("numbers", "strings")
            got = "none" if ids is None and named else got
            raise InputError(f"the ids of this index are {have}; got {got}")
        segment.first = self.items.next_id
        if ids is None:
            return
        self.items.refuse_known(ids)
        if isinstance(ids, list):
            segment.names = PackedStrings.of(ids)
        elif not np.array_equal(ids, np.arange(ids[0], ids[0] + len(ids))):
            segment.ids = narrow(ids)
        else:
            segment.first = int(ids[0])

    def _positions(self, ids: GivenIds) -> list[Array]:
        """Positions of ids by segment; refuses ids that are not there."""
        return [at for at, _ in self.items.find(checked_ids(ids))]

    def _width(self, k: int, rerank: int | None) -> int:
        """How many the scan has to find."""
        if rerank is not None and self.refiner is None and rerank != 0:
            raise InputError(
                f"rerank={rerank} needs an index with a refiner: HalfPrecision or "
                "LongerCode"
            )
        if self.refiner is None or rerank == 0:
            return 0
        return max(k, RERANK_FACTOR * k if rerank is None else rerank)

    def _found(
        self, queries: Tensor, wide: int, k: int, allowed: list[Array] | None
    ) -> Best:
        width = min(wide or k, max(len(self), 1))  # heaps of what there can be
        best = Best.empty(len(queries), width)
        self._scan(queries, best, allowed)
        best = best.ranked()
        if wide:
            best = self._refined(queries, best)
        missing = max(0, k - width)
        padding = Best.empty(len(queries), missing)
        return Best(
            *(
                np.concatenate([own[:, :k], pad], axis=1)
                for own, pad in zip(best, padding, strict=True)
            )
        )

    def _refined(self, queries: Tensor, best: Best) -> Best:
        """The same items, ordered by the refiner's distances."""
        refiner = self.refiner
        if refiner is None:
            return best
        rows = self.items.fine_rows(best.places, refiner.row_bytes)
        distances = refiner.distances(queries.cpu(), rows).numpy()
        distances = np.where(best.places < 0, np.float32(np.inf), distances)
        return Best(distances, best.keys, best.places).ranked()

    def _result(self, best: Best) -> SearchResult:
        ids, distances = best.tensors()
        if self.items.named:
            return SearchResult(self.items.strings(best.places), distances)
        return SearchResult(ids, distances)

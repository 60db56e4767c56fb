"""Items sorted into lists: a query looks into the nearest lists only."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.checks import checked_codes, checked_rows
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError, NotFittedError
from gradsnap.index.exhaustive import refuse_codes_alone
from gradsnap.index.identifiers import GivenIds, checked_ids
from gradsnap.index.index import Index
from gradsnap.index.metadata import Metadata
from gradsnap.index.rerank import Refiner, require_same_dim
from gradsnap.index.results import Best
from gradsnap.index.scanning import scan_own
from gradsnap.index.segments import Segment
from gradsnap.index.tables import float_tables
from gradsnap.index.tuning import Tuning, tuned

Array = NDArray[Any]


class ListedIndex(Index):
    """Base of the indexes with lists.

    Args:
        quantizer: of the vectors, or of their residuals; fitted, or fitted by ``fit``.
        residual: whether codes are of what a list's centroid leaves of a vector
            (smaller, so they err less) or of the vector itself (tables are made once
            a query).
        probes: lists a query looks into; ``tune`` finds how many a recall needs.
        refiner: as for ``ExhaustiveIndex``.
    """

    num_lists: int

    def __init__(
        self,
        quantizer: Quantizer,
        *,
        residual: bool,
        probes: int,
        refiner: Refiner | None,
    ) -> None:
        require_same_dim(quantizer.dim, refiner)
        super().__init__(quantizer, refiner)
        self.quantizer = quantizer
        self.residual = residual
        self._probes = 0
        self.probes = probes

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

    @torch.no_grad()
    def fit(self, x: Tensor) -> Self:
        """Learns the lists from x (n, dim), and the quantizer if it is not fitted.

        The quantizer is fitted to residuals where codes are of residuals.
        """
        if len(self):
            raise InputError(f"the index holds {len(self)} items: fit comes first")
        x = checked_rows(x, self.quantizer.dim, self.quantizer.dtype)
        self._fit_lists(x)
        if not self.quantizer.fitted:
            lists = self._nearest_lists(x, 1)[:, 0]
            self.quantizer.fit(self._left(x, lists) if self.residual else x)
        return self

    @torch.no_grad()
    def add(
        self,
        vectors: Tensor,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """Encodes vectors (n, dim) and keeps the codes; see ``ExhaustiveIndex.add``."""
        vectors = self._checked(vectors)
        lists = self._nearest_lists(vectors, 1)[:, 0]
        fine = None if self.refiner is None else self.refiner.encode(vectors)
        coded = self._left(vectors, lists) if self.residual else vectors
        codes = self.quantizer.encode(coded)
        self._append(codes, ids, metadata, lists.cpu().numpy(), fine)
        return self

    def add_codes(
        self,
        codes: Tensor,
        lists: Tensor,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """Keeps ready codes (n, num_codebooks) in lists (n,)."""
        refuse_codes_alone(self.refiner)
        own = self.quantizer
        checked = checked_codes(codes, own.num_codebooks, own.codebook_size)
        numbers = checked_codes(lists[:, None], 1, self.num_lists)[:, 0]
        if len(numbers) != len(checked):
            raise InputError(
                f"{len(checked)} codes need as many lists, got {len(lists)}"
            )
        self._append(checked, ids, metadata, numbers.cpu().numpy())
        return self

    @torch.no_grad()
    def reconstruct(self, ids: GivenIds) -> Tensor:
        """What the codes of items say their vectors are, (n, dim)."""
        codes, lists = self.items.codes_of(checked_ids(ids))
        parts = self.quantizer.decode(codes)
        return self._whole(parts, lists) if self.residual else parts

    def lists_of(self, vectors: Tensor) -> Tensor:
        """The list each of vectors (n, dim) falls into, int64 (n,)."""
        return self._nearest_lists(self._checked(vectors), 1)[:, 0]

    def tune(self, queries: Tensor, truth: Any, target: float) -> Tuning:
        """Sets ``probes`` to the fewest that reach a recall.

        Args:
            queries: (q, dim).
            truth: the ids to be found, (q, k), as ``search`` returns them.
            target: the wanted share of them among the first k results, 0 to 1.

        Returns:
            The probes chosen, and recall against time for each number tried.
        """
        return tuned(self, queries, truth, target)

    # --- the parts ----------------------------------------------------------

    def _checked(self, vectors: Any) -> Tensor:
        if not self.fitted:
            raise self._not_fitted()
        self.quantizer._require_fitted()
        return checked_rows(vectors, self.quantizer.dim, self.quantizer.dtype)

    def _not_fitted(self) -> NotFittedError:
        return NotFittedError(
            f"this {type(self).__name__} has no centroids yet: call fit(embeddings), "
            "or give it centroids"
        )

    def _tables_per_query(self) -> int:
        return min(self.probes, self.num_lists) if self.residual else 1

    @torch.no_grad()
    def _scan(self, queries: Tensor, best: Best, allowed: list[Array] | None) -> None:
        count = min(self.probes, self.num_lists)
        lists = self._nearest_lists(queries, count)  # (q, p)
        tables = np.arange(len(queries))[:, None].repeat(count, axis=1)
        coded = queries
        if self.residual:
            coded = self._left(queries.repeat_interleave(count, 0), lists.flatten())
            tables = np.arange(lists.numel()).reshape(lists.shape)
        entries = float_tables(self.items, coded)
        numbers = lists.cpu().numpy()
        for at, columns in enumerate(self.items.columns()):
            segment = self.items.segments[at]
            bounds = np.asarray(segment.bounds)
            spans = np.stack([bounds[numbers], bounds[numbers + 1], tables], axis=2)
            mask = _mask(segment, None if allowed is None else allowed[at])
            scan_own(columns, mask, spans, entries, best)


def _mask(segment: Segment, allowed: Array | None) -> Array:
    """Which items count, bool (n,); empty for all."""
    if allowed is not None:
        mask = np.zeros(len(segment), dtype=bool)
        mask[allowed] = True
        return mask
    if len(segment.removed):
        mask = np.ones(len(segment), dtype=bool)
        mask[segment.removed] = False
        return mask
    return np.empty(0, dtype=bool)

"""Exhaustive search: every code is compared with every query."""

from typing import Any, Self

from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.checks import checked_codes, checked_rows
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError
from gradsnap.index.fastscan import FastScan
from gradsnap.index.identifiers import GivenIds, checked_ids
from gradsnap.index.index import Index
from gradsnap.index.metadata import Metadata
from gradsnap.index.rerank import Refiner, require_same_dim
from gradsnap.index.results import Best
from gradsnap.index.scanning import scan_all
from gradsnap.index.segments import runs
from gradsnap.index.tables import float_tables

Array = NDArray[Any]


class ExhaustiveIndex(Index):
    """Asymmetric distance computation (ADC) over all codes, for every quantizer.

    A distance is one table entry per codebook, added up; for the additive family also
    the code's cross term, computed when the codes are first searched. Product codes of
    16 codewords a codebook are scanned by FAISS's fast-scan, and what it finds is
    scored again: results equal those of a plain scan.

    Args:
        quantizer: fitted, or fitted by ``fit``.
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

    def __init__(self, quantizer: Quantizer, *, refiner: Refiner | None = None) -> None:
        require_same_dim(quantizer.dim, refiner)
        super().__init__(quantizer, refiner)
        self.quantizer = quantizer
        self._fast = FastScan.of(quantizer, self.items)

    def config(self) -> dict[str, Any]:
        """The constructor's plain arguments."""
        return {}

    def fit(self, x: Tensor) -> Self:
        """Fits the quantizer to x (n, dim), unless it is fitted already."""
        if not self.quantizer.fitted:
            self.quantizer.fit(x)
        return self

    def add(
        self,
        vectors: Tensor,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """Encodes vectors (n, dim) and keeps their codes.

        Args:
            vectors: (n, dim).
            ids: n whole numbers of at least 0, or n strings, all new; the next free
                numbers if not given.
            metadata: columns of n values by name, or a pyarrow table.

        Raises:
            InputError: vectors hold NaN or have another length, or an id is taken.
        """
        vectors = self._checked(vectors)
        fine = None if self.refiner is None else self.refiner.encode(vectors)
        self._append(self.quantizer.encode(vectors), ids, metadata, fine=fine)
        return self

    def add_codes(
        self,
        codes: Tensor,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """Keeps codes (n, num_codebooks) that ``quantizer.encode`` gave."""
        refuse_codes_alone(self.refiner)
        own = self.quantizer
        checked = checked_codes(codes, own.num_codebooks, own.codebook_size)
        self._append(checked, ids, metadata)
        return self

    def reconstruct(self, ids: GivenIds) -> Tensor:
        """What the codes of items say their vectors are, (n, dim)."""
        codes, _ = self.items.codes_of(checked_ids(ids))
        return self.quantizer.decode(codes)

    def _checked(self, vectors: Any) -> Tensor:
        self.quantizer._require_fitted()
        return checked_rows(vectors, self.quantizer.dim, self.quantizer.dtype)

    def _scan(self, queries: Tensor, best: Best, allowed: list[Array] | None) -> None:
        entries = float_tables(self.items, queries)
        if allowed is None and self._fast is not None:
            self._fast.scan(queries, entries, best)
            return
        for number, columns in enumerate(self.items.columns()):
            segment = self.items.segments[number]
            ranges = segment.ranges if allowed is None else runs(allowed[number])
            scan_all(columns, ranges, entries, best)


def refuse_codes_alone(refiner: Refiner | None) -> None:
    """Codes alone cannot be re-ranked by something longer."""
    if refiner is not None:
        raise InputError(
            "this index re-ranks, and codes alone leave nothing to re-rank by: use add"
        )

"""Re-ranking: the best of a scan are compared again, by something longer."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.packing import bytes_of, pack, unpack
from gradsnap.coders.tables import Tables, sums_of_own
from gradsnap.errors import InputError

Array = NDArray[Any]


class Refiner(Protocol):
    """What is kept of each vector beside its code, and how it is compared."""

    dim: int
    """Length of a vector."""

    row_bytes: int
    """Bytes kept of each vector."""

    def encode(self, x: Tensor) -> Array:
        """What is kept of x (n, dim): uint8 (n, row_bytes)."""

    def distances(self, queries: Tensor, rows: Array) -> Tensor:
        """Distances (q, r) of queries (q, dim) to rows (q, r, row_bytes)."""

    def distances_of_kept(self, kept: Array, rows: Array) -> Tensor:
        """The same for queries of which only this is kept, (q, row_bytes)."""


class HalfPrecision:
    """Keeps the embeddings themselves in 16-bit floats: two bytes a dimension.

    Args:
        dim: length of a vector.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.row_bytes = 2 * dim

    def encode(self, x: Tensor) -> Array:
        """X (n, dim) in half precision, as bytes (n, 2 · dim)."""
        half = x.detach().cpu().half().contiguous()
        if not bool(half.isfinite().all()):
            raise InputError(
                f"vectors with numbers up to {float(x.abs().max()):g} do not fit half "
                "precision (at most 65504): scale them, or re-rank by a longer code"
            )
        return half.numpy().view(np.uint8)

    def distances(self, queries: Tensor, rows: Array) -> Tensor:
        """Squared distances (q, r) of queries (q, dim) to own rows (q, r, 2 · dim)."""
        halves = torch.from_numpy(rows.view(np.float16))
        parts = [
            (kept.float() - query).square().sum(dim=1)
            for query, kept in zip(queries.float(), halves, strict=True)
        ]
        return torch.stack(parts)

    def distances_of_kept(self, kept: Array, rows: Array) -> Tensor:
        """The same for queries in half precision, as bytes (q, 2 · dim)."""
        return self.distances(torch.from_numpy(kept.view(np.float16)), rows)


class LongerCode:
    """Keeps a second, longer code of each vector.

    Args:
        coder: fitted, of the same ``dim`` as the index.
    """

    def __init__(self, coder: Coder) -> None:
        self.coder = coder
        self.dim = coder.dim
        self.row_bytes = bytes_of(coder.num_codebooks, coder.codebook_size)

    def encode(self, x: Tensor) -> Array:
        """Packed codes (n, row_bytes) of x (n, dim)."""
        return pack(self.coder.encode(x).cpu().numpy(), self.coder.codebook_size)

    def distances(self, queries: Tensor, rows: Array) -> Tensor:
        """Distances (q, r) of queries (q, dim) to own rows (q, r, bytes)."""
        return self._sums(self.coder.tables(queries), rows)

    def distances_of_kept(self, kept: Array, rows: Array) -> Tensor:
        """The same for queries known by their longer codes, (q, bytes)."""
        return self._sums(self.coder.code_tables(self._codes(kept)), rows)

    def _sums(self, tables: Tables, rows: Array) -> Tensor:
        codes = self._codes(rows)  # (q, r, M)
        cross = self.coder.cross_terms(codes.flatten(0, 1)).view(codes.shape[:2])
        total = sums_of_own(tables.entries, codes) + cross + tables.offsets[:, None]
        return total.clamp_min_(0).float()

    def _codes(self, rows: Array) -> Tensor:
        """Codes (…, M) of packed ones (…, bytes)."""
        own = self.coder
        codes = unpack(rows, own.num_codebooks, own.codebook_size)
        return torch.from_numpy(codes.astype(np.int64))


def require_same_dim(dim: int, refiner: Refiner | None) -> None:
    """Refuses a refiner of other vectors."""
    if refiner is not None and refiner.dim != dim:
        raise InputError(
            f"the refiner takes vectors of length {refiner.dim}, the coder of {dim}"
        )

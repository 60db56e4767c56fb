"""Re-ranking: the best of a scan are compared again, by something longer."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.packing import bytes_of, pack, unpack
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError
from gradsnap.index.scanning import sums_of

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
        """Squared distances (q, r) of queries (q, dim) to rows (q, r, row_bytes)."""


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


class LongerCode:
    """Keeps a second, longer code of each vector.

    Args:
        quantizer: fitted, of the same ``dim`` as the index.
    """

    def __init__(self, quantizer: Quantizer) -> None:
        self.quantizer = quantizer
        self.dim = quantizer.dim
        self.row_bytes = bytes_of(quantizer.num_codebooks, quantizer.codebook_size)

    def encode(self, x: Tensor) -> Array:
        """Packed codes (n, row_bytes) of x (n, dim)."""
        codes = self.quantizer.encode(x).cpu().numpy()
        return pack(codes, self.quantizer.codebook_size)

    def distances(self, queries: Tensor, rows: Array) -> Tensor:
        """Squared distances (q, r) of queries (q, dim) to own rows (q, r, bytes)."""
        own = self.quantizer
        shape = (*rows.shape[:2], own.num_codebooks)
        flat = unpack(rows.reshape(-1, self.row_bytes), shape[2], own.codebook_size)
        codes = flat.reshape(shape)
        entries, offsets = own.tables(queries)
        cross = own.cross_terms(torch.from_numpy(flat.astype(np.int64)))
        total = sums_of(codes, entries) + cross.view(shape[:2]) + offsets[:, None]
        return total.clamp_min_(0).float()


def require_same_dim(dim: int, refiner: Refiner | None) -> None:
    """Refuses a refiner of other vectors."""
    if refiner is not None and refiner.dim != dim:
        raise InputError(
            f"the refiner takes vectors of length {refiner.dim}, the quantizer of {dim}"
        )

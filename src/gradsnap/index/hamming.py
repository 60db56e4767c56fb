"""Hashes: packed bits, compared by Hamming distance, plain or weighted."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError
from gradsnap.index.identifiers import GivenIds
from gradsnap.index.index import Index
from gradsnap.index.metadata import Metadata
from gradsnap.index.results import Best
from gradsnap.index.scanning import scan_all
from gradsnap.index.segments import runs
from gradsnap.index.tables import float_tables

Array = NDArray[Any]


class BitTables:
    """Bits as codes: each byte is a codebook, its entry the weight of differing bits.

    Args:
        weights: of the bits, (8 · bytes,), zero for those that do not count.
    """

    codebook_size = 256

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights.float()
        self.num_codebooks = len(weights) // 8
        values = torch.arange(256)[:, None]
        self._bits = (values >> torch.arange(7, -1, -1)) & 1  # (256, 8), high first

    def tables(self, queries: Tensor) -> Tables:
        """Weights of differing bits of bytes (q, M) and each byte: (q, M, 256)."""
        bits = self._bits[queries.long()].float()  # (q, M, 8)
        weights = self.weights.view(-1, 8)
        every = self._bits.float().T  # (8, 256)
        ours = (bits * weights).sum(dim=2, keepdim=True)  # (q, M, 1)
        entries = ours + (weights * (1 - 2 * bits)) @ every
        return Tables(entries, entries.new_zeros(len(queries)))

    def cross_terms(self, codes: Tensor) -> Tensor:
        """Zero: bits add up."""
        return torch.zeros(len(codes))

    def __repr__(self) -> str:
        return f"{self.num_codebooks} bytes"


class HammingIndex(Index):
    """All hashes are compared with every query, by the number of bits that differ.

    Hashes are uint8 (n, bytes), the first bit the highest of the first byte, as
    ``numpy.packbits`` packs them.

    Args:
        bits: of a hash; unused bits of the last byte do not count.
        weights: of each bit, (bits,), at least 0, for weighted Hamming distance; 1 if
            not given.

    Example:
        >>> index = HammingIndex(16)
        >>> hashes = torch.tensor([[0, 0], [255, 0], [1, 0]], dtype=torch.uint8)
        >>> index.add(hashes).search(hashes[:1], k=3).ids
        tensor([[0, 2, 1]])
    """

    kind = "hamming"

    def __init__(self, bits: int, *, weights: Tensor | None = None) -> None:
        if bits < 1:
            raise InputError(f"bits must be at least 1, got {bits}")
        given = torch.ones(bits) if weights is None else torch.as_tensor(weights)
        if given.shape != (bits,) or not bool((given >= 0).all()):
            raise InputError(
                f"weights must be {bits} numbers of at least 0, got {given.tolist()}"
            )
        self.bits = bits
        self.weights = weights
        whole = torch.zeros(-(-bits // 8) * 8)
        whole[:bits] = given
        super().__init__(BitTables(whole), None)

    def config(self) -> dict[str, Any]:
        """The constructor's plain arguments."""
        return {"bits": self.bits}

    def state(self) -> dict[str, Tensor]:
        """The weights, where there are any."""
        return {} if self.weights is None else {"weights": self.weights.float()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        self.__dict__.update(HammingIndex(self.bits, weights=state["weights"]).__dict__)

    def add(
        self,
        hashes: Tensor,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """Keeps hashes, uint8 (n, bytes); see ``ExhaustiveIndex.add`` for the rest."""
        self._append(self._checked(hashes), ids, metadata)
        return self

    def add_codes(
        self,
        codes: Tensor,
        ids: GivenIds | None = None,
        metadata: Metadata | None = None,
    ) -> Self:
        """The same as ``add``: a hash is its own code."""
        return self.add(codes, ids, metadata)

    def _checked(self, vectors: Any) -> Tensor:
        width = self.coder.num_codebooks
        if not isinstance(vectors, Tensor) or vectors.dtype != torch.uint8:
            kind = getattr(vectors, "dtype", type(vectors).__name__)
            raise InputError(f"expected packed bits, a tensor of uint8; got {kind}")
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise InputError(
                f"expected hashes of shape (n, {width}), got {tuple(vectors.shape)}"
            )
        return vectors.detach().cpu()

    def _scan(self, queries: Tensor, best: Best, allowed: list[Array] | None) -> None:
        entries = float_tables(self.items, queries)
        for number, columns in enumerate(self.items.columns()):
            segment = self.items.segments[number]
            ranges = segment.ranges if allowed is None else runs(allowed[number])
            scan_all(columns, ranges, entries, best)


def packed_bits(bits: Array | Tensor) -> Tensor:
    """Rows of bits (n, b) as hashes, uint8 (n, ⌈b / 8⌉)."""
    rows = np.asarray(bits.cpu() if isinstance(bits, Tensor) else bits)
    return torch.from_numpy(np.packbits(rows.astype(bool), axis=1))

"""The contract of whatever makes codes: vectors in, a few integers out.

What a coder can do is said by its type:

    Coder            fit, encode, tables, distances, save: enough to index and search
    ├── Quantizer    also decode, error, update and candidates: codes stand for vectors
    ├── Hasher       bits, compared by Hamming distance
    ├── SupervisedQuantizer   codes of vectors that were mapped first
    └── LocallyOptimizedProductQuantizer   codes that begin with a cell
"""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from gradsnap.arrays import Given, as_tensor
from gradsnap.coders.checks import checked_codes, checked_rows
from gradsnap.coders.tables import Tables, sums_of_all
from gradsnap.errors import InputError, NotFittedError
from gradsnap.losses.pairs import check_labels
from gradsnap.registry import options_of

Reduce = Callable[[Tensor], object]
"""Sums a tensor over processes in place, as ``torch.distributed.all_reduce`` does."""


class Coder(nn.Module, ABC):
    """Maps vectors (n, dim) to codes (n, num_codebooks) that are searched by tables.

    The base owns checks, precision, distances and saving; a child owns how codes are
    found. State is in buffers, complete from birth. Nothing here draws from the global
    random generator.

    Args:
        dim: length of a vector.
        seed: of everything random in ``fit``.
    """

    supervised: ClassVar[bool] = False
    """Whether ``fit`` needs labels."""
    follows: ClassVar[bool] = False
    """Whether ``update`` lets the coder follow a network while it trains."""
    statistics: ClassVar[frozenset[str]] = frozenset({"fitted"})
    """Buffers that do not change what a code means, and so not the fingerprint."""

    unbounded: ClassVar[frozenset[str]] = frozenset()
    """Buffers that may hold infinity."""

    num_codebooks: int
    """Integers of a code."""
    codebook_size: int
    """How many values each of them can have."""
    fitted: Tensor

    def __init__(self, dim: int, *, seed: int = 0) -> None:
        super().__init__()
        if dim < 1:
            raise InputError(f"dim must be at least 1, got {dim}")
        self.dim, self.seed = dim, seed
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    # --- what a child writes ------------------------------------------------

    @classmethod
    @abstractmethod
    def of_bits(
        cls, dim: int, bits: int, codebook_size: int | None = None, **options: Any
    ) -> Self:
        """An unfitted coder whose codes have so many bits."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """Length of a code in bits."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The floating type vectors are compared in."""

    @abstractmethod
    def _fit(self, x: Tensor, labels: Tensor) -> None:
        """Learns from x (n, dim) and fills the buffers in place.

        Labels (n,) or (n, L) are empty where the coder is not supervised.
        """

    @abstractmethod
    def _encode(self, x: Tensor) -> Tensor:
        """Codes (n, num_codebooks) of checked x (n, dim), any integer type."""

    @abstractmethod
    def _tables(self, queries: Tensor) -> Tables:
        """Look-up tables of checked queries (q, dim)."""

    @abstractmethod
    def _code_tables(self, codes: Tensor) -> Tables:
        """Look-up tables of queries that are given as int64 codes (q, M)."""

    def _cross_terms(self, codes: Tensor) -> Tensor:
        """What the tables leave out of the distance, (n,); zero here."""
        return torch.zeros(len(codes), dtype=self.dtype, device=codes.device)

    # --- the verbs ----------------------------------------------------------

    @classmethod
    def dim_of_bits(cls, bits: int, **options: Any) -> int | None:
        """The length a vector must have for so many bits; None for any length.

        Args:
            bits: length of a code.
            options: of the constructor, those that are given.
        """
        return None

    @property
    def code_dtype(self) -> torch.dtype:
        """uint8 up to 256 codewords a codebook, int32 above."""
        return torch.uint8 if self.codebook_size <= 256 else torch.int32

    @property
    def squared_blocks(self) -> bool:
        """Whether table entries are squared distances of blocks: never negative."""
        return False

    @property
    def hamming_levels(self) -> int | None:
        """The largest distance where distances are plain Hamming distances, or None."""
        return None

    @torch.no_grad()
    def fit(self, x: Given, labels: Given | None = None) -> Self:
        """Learns from vectors, forgetting whatever was learned before.

        Args:
            x: floating (n, dim).
            labels: int64 (n,), or multi-hot bool (n, L); needed by supervised coders
                and not looked at by the others.
        """
        x = checked_rows(x, self.dim, self.dtype)
        if len(x) < self._fewest_rows:
            raise InputError(
                f"too few rows: fit needs at least {self._fewest_rows}, got {len(x)}"
            )
        with full_precision(x):
            self._fit(x, self._checked_labels(x, labels))
        self.fitted.fill_(True)
        return self

    @torch.no_grad()
    def encode(self, x: Given) -> Tensor:
        """Codes of x (n, dim): (n, num_codebooks) of ``code_dtype``."""
        x = self._ready(x)
        with full_precision(x):
            return self._encode(x).to(self.code_dtype)

    def update(self, x: Given, reduce: Reduce | None = None) -> Self:
        """One streaming step on x (n, dim); does nothing unless the coder ``follows``.

        Args:
            x: the newest embeddings, (n, dim).
            reduce: sums a tensor over processes in place, for example
                ``torch.distributed.all_reduce``.
        """
        return self

    @torch.no_grad()
    def tables(self, queries: Given) -> Tables:
        """What ADC adds up: a distance is the offset plus one entry per codebook.

        For the additive family the sum still lacks ``cross_terms(codes)``, which
        depends on the item alone and is stored beside its code.
        """
        queries = self._ready(queries)
        with full_precision(queries):
            return self._tables(queries)

    @torch.no_grad()
    def code_tables(self, codes: Given) -> Tables:
        """The same for queries that are known by their codes (q, num_codebooks)."""
        codes = self._ready_codes(codes)
        with full_precision(codes):
            return self._code_tables(codes)

    @torch.no_grad()
    def cross_terms(self, codes: Given) -> Tensor:
        """What the tables leave out of the distance to codes (n, M), (n,)."""
        codes = self._ready_codes(codes)
        with full_precision(codes):
            return self._cross_terms(codes)

    @torch.no_grad()
    def distances(self, queries: Given, codes: Given) -> Tensor:
        """Distances (q, n) of queries (q, dim) to items given by codes (n, M)."""
        entries, offsets = self.tables(queries)
        codes = self._ready_codes(codes)
        total = sums_of_all(entries, codes)
        total += offsets[:, None] + self.cross_terms(codes)
        return total.clamp_min_(0)

    def relative_error(self, x: Given) -> float | None:
        """Error over the variance of x; None where codes stand for no vector."""
        return None

    # --- what it is ---------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain values."""
        return {name: getattr(self, name) for name in options_of(type(self))}

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of all that a code's meaning depends on.

        Equal for coders whose codes mean the same, to the bit; any change of a codeword
        or of a hash function changes it.
        """
        digest = hashlib.sha256()
        sizes = [self.dim, self.num_codebooks, self.codebook_size]
        digest.update(json.dumps([type(self).__name__, *sizes]).encode())
        for name, value in sorted(self.state_dict().items()):
            if name not in self.statistics:
                digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the coder to a safetensors file; see ``load_coder``."""
        from gradsnap.coders.storage import save_coder  # it knows the registry

        save_coder(self, path)

    def extra_repr(self) -> str:
        """Shown in ``print(coder)``."""
        values = self.config() | {"bits": self.bits}
        return ", ".join(f"{name}={value}" for name, value in values.items())

    # --- checks -------------------------------------------------------------

    _fewest_rows: ClassVar[int] = 1

    def _generator(self) -> torch.Generator:
        """A fresh generator on the CPU, so that every device draws the same."""
        return torch.Generator().manual_seed(self.seed)

    def _require_fitted(self) -> None:
        if not self.fitted:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: call fit(embeddings), "
                "or load one that was saved"
            )

    def _ready(self, x: Given) -> Tensor:
        self._require_fitted()
        return checked_rows(x, self.dim, self.dtype)

    def _ready_codes(self, codes: Given) -> Tensor:
        self._require_fitted()
        return checked_codes(codes, self.num_codebooks, self.codebook_size)

    def _checked_labels(self, x: Tensor, labels: Given | None) -> Tensor:
        if not self.supervised:
            return torch.empty(0, device=x.device)
        name = type(self).__name__
        if labels is None:
            raise InputError(f"{name} is supervised: fit needs labels (n,) or (n, L)")
        labels = as_tensor(labels)
        check_labels(labels, len(x), "rows")
        if len(labels.unique(dim=0)) < 2:
            raise InputError(f"{name} needs at least two classes, got one")
        return labels.to(x.device)


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Codes must not depend on the autocast the caller happens to be in."""
    kind = x.device.type
    if not torch.is_autocast_enabled(kind):
        return nullcontext()  # entering another context takes longer than looking
    return torch.autocast(kind, enabled=False)

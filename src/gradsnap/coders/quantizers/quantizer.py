"""What all quantizers share: a vector is the sum of one codeword per codebook."""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from gradsnap.coders.quantizers.checks import (
    check_count,
    check_sizes,
    checked_codes,
    checked_rows,
)
from gradsnap.errors import InputError, NotFittedError

logger = logging.getLogger(__name__)

CHUNK_ENTRIES = 2**20
"""How many table entries are held at once: 4 MiB in float32, about a core's cache."""

FIT_ROWS = 65_536
ROWS_PER_CODEWORD = 256
"""``fit`` learns from so many rows, or so many a codeword if that is more."""

Reduce = Callable[[Tensor], object]
"""Sums a tensor over processes in place, as ``torch.distributed.all_reduce`` does."""


class Candidates(NamedTuple):
    """The nearest codewords of each row, nearest first."""

    distances: Tensor
    """Squared distances, (n, k), ascending."""
    codes: Tensor
    """Their codes, (n, k, num_codebooks)."""


class Tables(NamedTuple):
    """What asymmetric distance computation (ADC) adds up for each query."""

    entries: Tensor
    """One number per codeword, (q, num_codebooks, codebook_size)."""
    offsets: Tensor
    """One number per query, (q,), so that the sum is a squared distance."""


class Quantizer(nn.Module, ABC):
    """Maps vectors to codes of ``num_codebooks`` integers, and codes to vectors.

    The base owns checks, distances, error and saving; a child owns how codes and
    codebooks are found. Nothing here draws from the global random generator.

    Args:
        dim: length of a vector.
        num_codebooks: M, how many codewords are added up for one vector.
        codebook_size: K, codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones; the
            codebooks remember about ``1 / (1 - decay)`` updates.
        seed: of everything random in ``fit``.
    """

    codebooks: Tensor
    counts: Tensor
    fitted: Tensor

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        decay: float = 0.99,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_sizes(dim, num_codebooks, codebook_size, decay)
        self.dim = dim
        self.num_codebooks = num_codebooks
        self.codebook_size = codebook_size
        self.decay = decay
        self.seed = seed
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    # --- what a child writes ------------------------------------------------

    @abstractmethod
    def _fit(self, x: Tensor) -> None:
        """Finds the codebooks from x (n, dim) and fills the buffers in place."""

    @abstractmethod
    def _encode(self, x: Tensor) -> Tensor:
        """Codes (n, num_codebooks), int64, of x (n, dim)."""

    @abstractmethod
    def _decode(self, codes: Tensor) -> Tensor:
        """Reconstructions (n, dim) of int64 codes (n, num_codebooks)."""

    @abstractmethod
    def _update(self, x: Tensor, reduce: Reduce) -> None:
        """One streaming step on x (n, dim); ``reduce`` sums each batch statistic."""

    @abstractmethod
    def _candidates(self, x: Tensor, k: int) -> Candidates:
        """The k nearest codewords of x (n, dim); codes int64."""

    @abstractmethod
    def _tables(self, queries: Tensor) -> Tables:
        """Look-up tables of checked queries (q, dim)."""

    @abstractmethod
    def _inner_products(self, x: Tensor) -> Tensor:
        """Inner product of x (n, dim) with each codeword, (n, M, K)."""

    @abstractmethod
    def _mix(self, weights: Tensor) -> Tensor:
        """Weighted sums of all codewords, (n, dim), for weights (n, M, K)."""

    def _cross_terms(self, codes: Tensor) -> Tensor:
        """What the tables leave out of the squared distance, (n,); zero here."""
        return torch.zeros(len(codes), dtype=self.dtype, device=codes.device)

    # --- the verbs ----------------------------------------------------------

    @property
    def bits(self) -> int:
        """Length of a code in bits."""
        return self.num_codebooks * (self.codebook_size.bit_length() - 1)

    @property
    def code_dtype(self) -> torch.dtype:
        """uint8 up to 256 codewords a codebook, int32 above."""
        return torch.uint8 if self.codebook_size <= 256 else torch.int32

    @property
    def dtype(self) -> torch.dtype:
        """The floating type the codebooks are kept in."""
        return self.codebooks.dtype

    @torch.no_grad()
    def fit(self, x: Tensor) -> Self:
        """Learns the codebooks from x (n, dim), forgetting any earlier ones.

        Of more rows than codebooks can use (65,536, or 256 a codeword) a seeded sample
        is taken.
        """
        x = checked_rows(x, self.dim, self.dtype)
        if len(x) == 0:
            raise InputError("fit needs at least one row; got none")
        if len(x) < self.codebook_size:
            logger.warning(
                "%d rows for %d codewords: some repeat", len(x), self.codebook_size
            )
        with _full_precision(x):
            self._fit(self._sample(x))
        self.fitted.fill_(True)
        return self

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """Codes of x (n, dim): (n, num_codebooks) of ``code_dtype``."""
        x = self._ready(x)
        with _full_precision(x):
            return self._encode(x).to(self.code_dtype)

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """Reconstructions (n, dim) of codes (n, num_codebooks), any integer type."""
        codes = self._ready_codes(codes)
        with _full_precision(codes):
            return self._decode(codes)

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction of x (n, dim): ``decode(encode(x))``."""
        return self.decode(self.encode(x))

    @torch.no_grad()
    def update(self, x: Tensor, reduce: Reduce | None = None) -> Self:
        """One streaming step on x (n, dim), so that the codebooks follow the network.

        Args:
            x: the newest embeddings, (n, dim).
            reduce: sums a tensor over processes in place, for example
                ``torch.distributed.all_reduce``; codebooks that are equal on all
                processes then stay equal, bit for bit.
        """
        x = self._ready(x)
        with _full_precision(x):
            self._update(x, reduce or _alone)
        return self

    @torch.no_grad()
    def candidates(self, x: Tensor, k: int) -> Candidates:
        """The k nearest codewords of each row of x (n, dim), nearest first."""
        x = self._ready(x)
        check_count(k, self.codebook_size**self.num_codebooks)
        with _full_precision(x):
            found = self._candidates(x, k)
        return Candidates(found.distances, found.codes.to(self.code_dtype))

    @torch.no_grad()
    def tables(self, queries: Tensor) -> Tables:
        """What ADC adds up: a distance is the offset plus one entry per codebook.

        For the additive family the sum still lacks ``cross_terms(codes)``, which
        depends on the item alone and is stored beside its code.
        """
        queries = self._ready(queries)
        with _full_precision(queries):
            return self._tables(queries)

    @torch.no_grad()
    def inner_products(self, x: Tensor) -> Tensor:
        """Inner product of each row of x (n, dim) with each codeword, (n, M, K)."""
        x = self._ready(x)
        with _full_precision(x):
            return self._inner_products(x)

    @torch.no_grad()
    def cross_terms(self, codes: Tensor) -> Tensor:
        """Twice the sum of inner products between the codewords of a code, (n,)."""
        codes = self._ready_codes(codes)
        with _full_precision(codes):
            return self._cross_terms(codes)

    @torch.no_grad()
    def distances(self, queries: Tensor, codes: Tensor) -> Tensor:
        """Squared distances (q, n) of queries (q, dim) to reconstructions of codes."""
        entries, offsets = self.tables(queries)
        codes = self._ready_codes(codes)
        total = offsets[:, None] + self.cross_terms(codes)  # (q, n)
        for m in range(self.num_codebooks):
            total += entries[:, m][:, codes[:, m]]
        return total.clamp_min_(0)

    @torch.no_grad()
    def error(self, x: Tensor) -> float:
        """Mean squared distance of the rows of x (n, dim) to their reconstruction."""
        x = self._ready(x)
        if len(x) == 0:
            raise InputError("error needs at least one row; got none")
        return float((x - self(x)).double().square().sum() / len(x))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the quantizer to a safetensors file; see ``load_quantizer``."""
        from gradsnap.coders.quantizers.storage import save_quantizer

        save_quantizer(self, path)

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain values."""
        return {
            "dim": self.dim,
            "num_codebooks": self.num_codebooks,
            "codebook_size": self.codebook_size,
            "decay": self.decay,
            "seed": self.seed,
        }

    def extra_repr(self) -> str:
        """Shown in ``print(quantizer)``."""
        values = ", ".join(f"{name}={value}" for name, value in self.config().items())
        return f"{values}, bits={self.bits}"

    # --- checks -------------------------------------------------------------

    def _generator(self) -> torch.Generator:
        """A fresh generator on the CPU, so that every device draws the same."""
        return torch.Generator().manual_seed(self.seed)

    def _sample(self, x: Tensor) -> Tensor:
        most = max(FIT_ROWS, ROWS_PER_CODEWORD * self.codebook_size)
        if len(x) <= most:
            return x
        drawn = torch.randperm(len(x), generator=self._generator())[:most]
        return x[drawn.to(x.device)]

    def _require_fitted(self) -> None:
        if not self.fitted:
            raise NotFittedError(
                f"this {type(self).__name__} has no codebooks yet: "
                "call fit(embeddings), or load one that was saved"
            )

    def _ready(self, x: Tensor) -> Tensor:
        self._require_fitted()
        return checked_rows(x, self.dim, self.dtype)

    def _ready_codes(self, codes: Tensor) -> Tensor:
        self._require_fitted()
        return checked_codes(codes, self.num_codebooks, self.codebook_size)


def chunks(x: Tensor, entries_per_row: int) -> tuple[Tensor, ...]:
    """Parts of x of so many rows that about ``CHUNK_ENTRIES`` numbers are held."""
    parts: tuple[Tensor, ...] = x.split(max(1, CHUNK_ENTRIES // entries_per_row))
    return parts


def _alone(_: Tensor) -> None:
    """The reduction of a single process: nothing to add."""


def _full_precision(x: Tensor) -> torch.autocast:
    """Codes must not depend on the autocast the caller happens to be in."""
    return torch.autocast(x.device.type, enabled=False)

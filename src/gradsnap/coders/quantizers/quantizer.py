"""What all quantizers share: a vector is the sum of one codeword per codebook."""

import logging
from abc import abstractmethod
from typing import Any, NamedTuple, Self, TypedDict

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.coders.checks import check_codebook_size, check_count, check_sizes
from gradsnap.coders.coder import Coder, Reduce, full_precision
from gradsnap.coders.packing import bits_of
from gradsnap.coders.quantizers.block_tables import Blocks
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

logger = logging.getLogger(__name__)

CHUNK_ENTRIES = 2**20
"""How many table entries are held at once: 4 MiB in float32, about a core's cache."""

FIT_ROWS = 65_536
ROWS_PER_CODEWORD = 256
"""``fit`` learns from so many rows, or so many a codeword if that is more."""

MOST_BITS_A_CODEBOOK = 8


class Candidates(NamedTuple):
    """The nearest codewords of each row, nearest first."""

    distances: Tensor
    """Squared distances, (n, k), ascending."""
    codes: Tensor
    """Their codes, (n, k, num_codebooks)."""


class Common(TypedDict, total=False):
    """Options that every quantizer has."""

    decay: float
    seed: int


class Quantizer(Coder):
    """A coder whose codes stand for vectors: the sum of one codeword per codebook.

    A child owns how codes and codebooks are found; everything else is here and in the
    contract.

    Args:
        dim: length of a vector.
        num_codebooks: M, how many codewords are added up for one vector.
        codebook_size: K, codewords in a codebook; a power of two, 2 to 65,536.
        decay: what one ``update`` leaves of the weight of all earlier ones; the
            codebooks remember about ``1 / (1 - decay)`` updates.
        seed: of everything random in ``fit``.
    """

    follows = True
    statistics = frozenset({"fitted", "counts"})

    codebooks: Tensor
    counts: Tensor

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        decay: float = 0.99,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, seed=seed)
        check_sizes(num_codebooks, codebook_size, decay)
        self.num_codebooks = num_codebooks
        self.codebook_size = codebook_size
        self.decay = decay

    @classmethod
    def of_bits(
        cls, dim: int, bits: int, codebook_size: int | None = None, **options: Any
    ) -> Self:
        """A quantizer of so many bits; of as few codebooks as bits allow.

        Raises:
            InputError: the bits cannot be divided among such codebooks.
        """
        return cls(dim, *split_bits(bits, codebook_size), **options)

    # --- what a child writes ------------------------------------------------

    @abstractmethod
    def _learn(self, x: Tensor) -> None:
        """Finds the codebooks from x (n, dim) and fills the buffers in place."""

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
    def _inner_products(self, x: Tensor) -> Tensor:
        """Inner product of x (n, dim) with each codeword, (n, M, K)."""

    @abstractmethod
    def _mix(self, weights: Tensor) -> Tensor:
        """Weighted sums of all codewords, (n, dim), for weights (n, M, K)."""

    def _in_blocks(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Rows (n, M · width) and codebooks (M, K, width) that tables are made of.

        An entry is the squared distance of a block of a row to a codeword; None where
        tables are something else.
        """
        return None

    def _unrotated(self, x: Tensor) -> Blocks | None:
        """The same before rows are rotated, for a kernel that does so in its order."""
        made = self._in_blocks(x)
        return None if made is None else Blocks(*made)

    # --- the verbs ----------------------------------------------------------

    @property
    def bits(self) -> int:
        """Length of a code in bits."""
        return self.num_codebooks * bits_of(self.codebook_size)

    @property
    def dtype(self) -> torch.dtype:
        """The floating type the codebooks are kept in."""
        return self.codebooks.dtype

    @torch.no_grad()
    def decode(self, codes: Given) -> Tensor:
        """Reconstructions (n, dim) of codes (n, num_codebooks), any integer type."""
        codes = self._ready_codes(codes)
        with full_precision(codes):
            return self._decode(codes)

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction of x (n, dim): ``decode(encode(x))``.

        No gradient reaches x. It reaches the codewords where they learn by gradient:
        after ``quantizer.codebooks.requires_grad_()``.
        """
        codes = self.encode(x).long()
        with full_precision(codes):
            return self._decode(codes)

    @torch.no_grad()
    def update(self, x: Given, reduce: Reduce | None = None) -> Self:
        """One streaming step on x (n, dim), so that the codebooks follow the network.

        Args:
            x: the newest embeddings, (n, dim).
            reduce: sums a tensor over processes in place, for example
                ``torch.distributed.all_reduce``; codebooks that are equal on all
                processes then stay equal, bit for bit.
        """
        x = self._ready(x)
        with full_precision(x):
            self._update(x, reduce or alone)
        return self

    @torch.no_grad()
    def candidates(self, x: Given, k: int) -> Candidates:
        """The k nearest codewords of each row of x (n, dim), nearest first."""
        x = self._ready(x)
        check_count(k, self.codebook_size**self.num_codebooks)
        with full_precision(x):
            found = self._candidates(x, k)
        return Candidates(found.distances, found.codes.to(self.code_dtype))

    @torch.no_grad()
    def inner_products(self, x: Given) -> Tensor:
        """Inner product of each row of x (n, dim) with each codeword, (n, M, K)."""
        x = self._ready(x)
        with full_precision(x):
            return self._inner_products(x)

    @torch.no_grad()
    def error(self, x: Given) -> float:
        """Mean squared distance of the rows of x (n, dim) to their reconstruction."""
        x = self._ready(x)
        if len(x) == 0:
            raise InputError("error needs at least one row; got none")
        return float((x - self(x)).double().square().sum() / len(x))

    def relative_error(self, x: Given) -> float:
        """Quantization error of rows (n, dim) over their variance."""
        x = as_tensor(x)
        variance = (x - x.mean(dim=0)).double().square().sum(dim=1).mean()
        return self.error(x) / max(float(variance), 1e-30)

    # --- the parts ----------------------------------------------------------

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        if len(x) < self.codebook_size:
            logger.warning(
                "%d rows for %d codewords: some repeat", len(x), self.codebook_size
            )
        self._learn(self._sample(x))

    def _code_tables(self, codes: Tensor) -> Tables:
        return self._tables(self._decode(codes))

    def _sample(self, x: Tensor) -> Tensor:
        """A seeded sample of as many rows as codebooks can use."""
        most = max(FIT_ROWS, ROWS_PER_CODEWORD * self.codebook_size)
        if len(x) <= most:
            return x
        chosen = torch.randperm(len(x), generator=self._generator())[:most]
        return x[chosen.to(x.device)]


def split_bits(bits: int, codebook_size: int | None = None) -> tuple[int, int]:
    """How many codebooks, and of which size, make a code of so many bits.

    Raises:
        InputError: the bits cannot be divided among such codebooks.
    """
    size = size_of_codebooks(bits) if codebook_size is None else codebook_size
    check_codebook_size(size)
    if bits < 1 or bits % bits_of(size):
        raise InputError(
            f"{bits} bits cannot be made of codebooks of {size} codewords: bits must "
            f"be a multiple of {bits_of(size)}, and at least that"
        )
    return bits // bits_of(size), size


ROWS_A_CODEWORD = 4
"""Training rows that a codebook needs for each of its codewords, at least."""


def size_of_codebooks(bits: int, rows: int | None = None) -> int:
    """Codewords a codebook: as many as divide the bits evenly, at most 256.

    Few codebooks of many codewords err less than many of few, as long as there are rows
    to learn them from.

    Args:
        bits: of a code.
        rows: to learn from; None: enough.

    Example:
        >>> [size_of_codebooks(bits) for bits in (12, 20, 24, 32)]
        [64, 32, 256, 256]
        >>> size_of_codebooks(32, rows=300)
        16
    """
    each = range(MOST_BITS_A_CODEBOOK, 0, -1)
    dividing = [1 << one for one in each if bits % one == 0]
    fit = (one for one in dividing if rows is None or ROWS_A_CODEWORD * one <= rows)
    return next(fit, dividing[-1])


def chunks(x: Tensor, entries_per_row: int) -> tuple[Tensor, ...]:
    """Parts of x of so many rows that about ``CHUNK_ENTRIES`` numbers are held."""
    parts: tuple[Tensor, ...] = x.split(max(1, CHUNK_ENTRIES // entries_per_row))
    return parts


def alone(_: Tensor) -> None:
    """The reduction of a single process: nothing to add."""

"""Locally optimized product quantization: a cell, and in it a quantizer of its own."""

import itertools
from typing import Any, Self

import torch
from torch import Tensor

from gradsnap.coders.checks import check_codebook_size
from gradsnap.coders.coder import Coder
from gradsnap.coders.packing import bits_of
from gradsnap.coders.quantizers.kmeans import assign, kmeans
from gradsnap.coders.quantizers.optimized import balanced_directions
from gradsnap.coders.quantizers.product import ProductQuantizer
from gradsnap.coders.rotations import identity
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

CELL_BITS = (4, 3, 2, 1)
"""Bits of a cell where nothing is said, the best first."""
MOST_WORD_BITS = 7
ROWS_EACH = 4
"""A cell needs so many rows a dimension for its own rotation, a word for codebooks."""


class LocallyOptimizedProductQuantizer(Coder):
    """LOPQ (Kalantidis and Avrithis 2014): each cell rotates and codes its residuals.

    A row belongs to the cell of its nearest centroid; what the centroid leaves of it is
    rotated so that the cell's blocks have like variance, and coded by the cell's own
    product quantizer. Cells of few rows take the rotation or the codebooks that all
    residuals together give.

    ‖q − x̂‖² is a sum over blocks only once the cell is known. So each integer of a code
    names cell and word together, cell · words + word, and ``codebook_size`` is cells ·
    words; sums over tables are then exact distances. The cell is the same in all
    integers of a code, and ``bits`` counts it once, which is what a code tells; an
    index that scans stores it with each.

    A coder and not a quantizer: no gradient can be snapped to codes that must agree in
    a cell. For large data, ``LocallyOptimizedIndex`` keeps the cells as its lists.

    Args:
        dim: length of a vector.
        num_codebooks: number of blocks; at most ``dim``.
        words: codewords of a block in each cell; a power of two.
        cells: how many; a power of two.
        seed: of k-means.

    Example:
        >>> x = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
        >>> coder = LocallyOptimizedProductQuantizer(8, 2, words=16, cells=4).fit(x)
        >>> coder.bits, coder.codebook_size, tuple(coder.encode(x).shape)
        (10, 64, (500, 2))
    """

    statistics = frozenset(
        {"fitted", "shared.fitted", "shared.codebooks", "shared.counts"}
    )
    _fewest_rows = 2

    centroids: Tensor
    rotations: Tensor
    codebooks: Tensor

    def __init__(
        self, dim: int, num_codebooks: int, words: int, cells: int, *, seed: int = 0
    ) -> None:
        super().__init__(dim, seed=seed)
        self.shared = ProductQuantizer(dim, num_codebooks, words, seed=seed)
        if cells < 2 or cells & (cells - 1) or cells * words > 65536:
            raise InputError(
                "cells must be a power of two, at least 2 and at most "
                f"{65536 // words} for {words} words, got {cells}"
            )
        self.num_codebooks, self.words, self.cells = num_codebooks, words, cells
        self.codebook_size = cells * words
        width = self.shared.width
        self.register_buffer("centroids", torch.zeros(cells, dim))
        rotations = torch.zeros(cells, dim, dim).copy_(identity(dim))
        self.register_buffer("rotations", rotations)
        shape = (cells, num_codebooks, words, width)
        self.register_buffer("codebooks", torch.zeros(shape))

    @classmethod
    def of_bits(
        cls, dim: int, bits: int, codebook_size: int | None = None, **options: Any
    ) -> Self:
        """A coder of so many bits, those of the cell among them.

        Args:
            dim: length of a vector.
            bits: log₂ cells + num_codebooks · log₂ words.
            codebook_size: words of a block in each cell; chosen if not given.
            options: ``cells``, chosen if not given, and ``seed``.
        """
        cells = options.pop("cells", None)
        cell_bits = CELL_BITS if cells is None else (_bits(cells),)
        longest = range(MOST_WORD_BITS, 0, -1)
        each = longest if codebook_size is None else (_bits(codebook_size),)
        choices = itertools.product((2, 1), each, cell_bits)
        for fewest, word, cell in choices:  # one block alone gains by no rotation
            count, left = divmod(bits - cell, word)
            if left == 0 and count >= fewest:
                return cls(dim, count, 1 << word, 1 << cell, **options)
        raise InputError(
            f"{bits} bits cannot be made of a cell and codebooks: bits must be log₂ "
            "cells plus a multiple of log₂ codebook_size; leave out both for a choice "
            "that fits"
        )

    @property
    def bits(self) -> int:
        """Length of a code in bits, the cell counted once."""
        return bits_of(self.cells) + self.num_codebooks * bits_of(self.words)

    @property
    def dtype(self) -> torch.dtype:
        """The floating type of centroids and codebooks."""
        return self.centroids.dtype

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        generator, blocks = self._generator(), self.num_codebooks
        found, _ = kmeans(x[None], self.cells, generator=generator)
        self.centroids.copy_(found[0])
        cells = self._cells(x)
        left = x - self.centroids[cells]
        self.rotations.copy_(balanced_directions(left, blocks))
        for cell, own in self._by_cell(cells):
            if len(own) >= ROWS_EACH * self.dim:
                self.rotations[cell] = balanced_directions(left[own], blocks)
        rotated = self._rotated(x, cells)
        self.codebooks.copy_(self.shared.fit(rotated).codebooks)
        for cell, own in self._by_cell(cells):
            if len(own) >= ROWS_EACH * self.words:
                self.codebooks[cell], _ = kmeans(
                    self.shared.blocks(rotated[own]).contiguous(),
                    self.words,
                    generator=generator,
                    start=self.codebooks[cell],
                )

    def _cells(self, x: Tensor) -> Tensor:
        """The cell of each row of x (n, dim), (n,)."""
        return assign(x[None], self.centroids[None])[0]

    def _by_cell(self, cells: Tensor) -> list[tuple[int, Tensor]]:
        """Each cell that occurs in cells (n,), with its rows' places."""
        return [(c, (cells == c).nonzero()[:, 0]) for c in cells.unique().tolist()]

    def _rotated(self, x: Tensor, cells: Tensor) -> Tensor:
        """What centroids leave of x (n, dim), in the rotation of cells (n,)."""
        rotated = torch.empty_like(x)
        for cell, own in self._by_cell(cells):
            rotated[own] = (x[own] - self.centroids[cell]) @ self.rotations[cell]
        return rotated

    def _encode(self, x: Tensor) -> Tensor:
        cells = self._cells(x)
        blocks = self.shared.blocks(self._rotated(x, cells))  # (M, n, width)
        codes = torch.empty(len(x), self.num_codebooks, dtype=torch.int64).to(x.device)
        for cell, own in self._by_cell(cells):
            codes[own] = assign(blocks[:, own], self.codebooks[cell]).T
        return codes + self.words * cells[:, None]

    def _decode(self, codes: Tensor) -> Tensor:
        """Reconstructions (n, dim) of int64 codes (n, M), in the cell of the first."""
        cells, words = codes[:, 0] // self.words, codes % self.words
        place = torch.arange(self.num_codebooks, device=codes.device)
        rotated = self.shared._join(self.codebooks[cells[:, None], place, words])
        back = torch.einsum("nd,nkd->nk", rotated, self.rotations[cells])
        return back + self.centroids[cells]

    def _tables(self, queries: Tensor) -> Tables:
        """Squared distances of blocks in each cell, (q, M, cells · words)."""
        parts = []
        for cell in range(self.cells):
            everywhere = torch.full((len(queries),), cell, device=queries.device)
            blocks = self.shared.blocks(self._rotated(queries, everywhere))
            apart = torch.cdist(
                blocks,
                self.codebooks[cell],
                compute_mode="donot_use_mm_for_euclid_dist",
            )
            parts.append(apart.square())  # (M, q, words)
        entries = torch.cat(parts, dim=2).transpose(0, 1).contiguous()
        return Tables(entries, queries.new_zeros(len(queries)))

    def _code_tables(self, codes: Tensor) -> Tables:
        return self._tables(self._decode(codes))


def _bits(size: int) -> int:
    """log₂ of a power of two, 2 to 65,536."""
    check_codebook_size(size)
    return bits_of(size)

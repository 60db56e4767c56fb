"""The inverted multi-index: lists are pairs of codewords of two half-vectors."""

import math
from typing import cast

from torch import Tensor

from gradsnap.coders.coder import Coder, full_precision
from gradsnap.coders.quantizers import OptimizedProductQuantizer, ProductQuantizer
from gradsnap.coders.quantizers.block_tables import Blocks
from gradsnap.coders.quantizers.candidates import smallest_sums
from gradsnap.errors import InputError
from gradsnap.index.index import Config
from gradsnap.index.lists import ListedIndex
from gradsnap.index.probing import can_pair, is_ordered, nearest_pairs
from gradsnap.index.rerank import Refiner


class MultiIndex(ListedIndex):
    """The inverted multi-index (Babenko and Lempitsky 2012).

    A coarse product quantizer of two codebooks makes ``codewords²`` small lists; the
    nearest pairs of a query are found exactly, without looking at all of them.

    Args:
        coder: a quantizer of vectors, or of residuals; fitted, or fitted by ``fit``.
        codewords: in each half; a power of two.
        coarse: your own quantizer of two codebooks, instead of a plain one; learned by
            ``fit`` unless it is fitted. An ``OptimizedProductQuantizer`` rotates first,
            so that both halves matter alike: fewer items to look at for a recall.
        residual: whether codes are of residuals or of the vectors themselves.
        probes: lists a query looks into.
        refiner: ``HalfPrecision`` or ``LongerCode``; None for no re-ranking.
        seed: of k-means.

    Example:
        >>> import torch, gradsnap as gs
        >>> x = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(dim=8, num_codebooks=4, codebook_size=16)
        >>> index = gs.MultiIndex(quantizer, codewords=8).fit(x).add(x)
        >>> index.num_lists
        64
    """

    kind = "multi"

    def __init__(
        self,
        coder: Coder,
        *,
        codewords: int = 64,
        coarse: ProductQuantizer | OptimizedProductQuantizer | None = None,
        residual: bool = False,
        probes: int = 64,
        refiner: Refiner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(coder, residual=residual, probes=probes, refiner=refiner)
        if coarse is None:
            coarse = ProductQuantizer(coder.dim, 2, codewords, seed=seed)
            coarse = coarse.to(coder.dtype)
        if coarse.num_codebooks != 2 or coarse.dim != coder.dim:
            raise InputError(
                f"the coarse quantizer needs 2 codebooks and dim {coder.dim}, got "
                f"{coarse.num_codebooks} and dim {coarse.dim}"
            )
        self.coarse = coarse
        self.seed = seed

    @classmethod
    def _sizes(cls, count: int, num_lists: int | None, residual: bool) -> Config:
        """At least as many lists as the root of ``count``, unless told."""
        codewords = 2 ** math.ceil(math.log2(max(count, 2)) / 4)
        if num_lists is not None:
            codewords = math.isqrt(num_lists)
        powers = codewords >= 2 and codewords & (codewords - 1) == 0
        if num_lists not in (None, codewords**2) or not powers:
            raise InputError(
                "the lists of an index of kind multi are pairs of codewords: --lists "
                f"must be a power of four, such as 256, 1024 or 4096, got {num_lists}"
            )
        return {"codewords": codewords, "residual": residual}

    @property
    def num_lists(self) -> int:  # type: ignore[override]
        """Pairs of codewords."""
        return self.coarse.codebook_size**2

    @property
    def fitted(self) -> bool:
        """Whether the coarse quantizer has codebooks."""
        return bool(self.coarse.fitted)

    def config(self) -> Config:
        """The constructor's plain arguments."""
        return {
            "codewords": self.coarse.codebook_size,
            "residual": self.residual,
            "probes": self.probes,
            "seed": self.seed,
        }

    def state(self) -> dict[str, Tensor]:
        """The coarse quantizer's buffers."""
        return dict(self.coarse.state_dict()) if self.fitted else {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        if "rotation" in state and not isinstance(
            self.coarse, OptimizedProductQuantizer
        ):
            size = self.coarse.codebook_size
            rotated = OptimizedProductQuantizer(self.coder.dim, 2, size, seed=self.seed)
            self.coarse = rotated.to(self.coder.dtype)
        self.coarse.load_state_dict(state)

    def _fit_lists(self, x: Tensor) -> None:
        self.coarse.fit(x)

    def _nearest_lists(self, x: Tensor, count: int) -> Tensor:
        if count == 1:
            codes = self.coarse.encode(x).long()[:, None]
            return codes[..., 0] * self.coarse.codebook_size + codes[..., 1]
        with full_precision(x):
            if is_ordered(x, count):
                entries = cast(Blocks, self.coarse._unrotated(x)).tables()
            else:
                entries = self.coarse._tables(x).entries
            if can_pair(x):
                return nearest_pairs(entries, count)
            codes = smallest_sums(entries, count).codes  # (n, count, 2)
        return codes[..., 0] * self.coarse.codebook_size + codes[..., 1]

    def _in_cells(self, x: Tensor) -> Blocks | None:
        return self.coarse._unrotated(x)

    def _centroids_of(self, lists: Tensor) -> Tensor:
        size = self.coarse.codebook_size
        first = lists.div(size, rounding_mode="floor")
        codes = first.new_empty(len(lists), 2)
        codes[:, 0], codes[:, 1] = first, lists.remainder(size)
        return self.coarse.decode(codes)

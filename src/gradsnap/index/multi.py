"""The inverted multi-index: lists are pairs of codewords of two half-vectors."""

from typing import Any

from torch import Tensor

from gradsnap.coders.quantizers import ProductQuantizer, Quantizer
from gradsnap.errors import InputError
from gradsnap.index.lists import ListedIndex
from gradsnap.index.rerank import Refiner


class MultiIndex(ListedIndex):
    """The inverted multi-index (Babenko and Lempitsky 2012).

    A coarse product quantizer of two codebooks makes ``codewords²`` small lists; the
    nearest pairs of a query are found exactly, without looking at all of them.

    Args:
        quantizer: of vectors, or of residuals; fitted, or fitted by ``fit``.
        codewords: in each half; a power of two.
        coarse: your own fitted quantizer of two codebooks; nothing is learned then.
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
        quantizer: Quantizer,
        *,
        codewords: int = 64,
        coarse: ProductQuantizer | None = None,
        residual: bool = False,
        probes: int = 64,
        refiner: Refiner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(quantizer, residual=residual, probes=probes, refiner=refiner)
        if coarse is None:
            coarse = ProductQuantizer(quantizer.dim, 2, codewords, seed=seed)
            coarse = coarse.to(quantizer.dtype)
        if coarse.num_codebooks != 2 or coarse.dim != quantizer.dim:
            raise InputError(
                f"the coarse quantizer needs 2 codebooks and dim {quantizer.dim}, got "
                f"{coarse.num_codebooks} and dim {coarse.dim}"
            )
        self.coarse = coarse
        self.seed = seed

    @property
    def num_lists(self) -> int:  # type: ignore[override]
        """Pairs of codewords."""
        return self.coarse.codebook_size**2

    @property
    def fitted(self) -> bool:
        """Whether the coarse quantizer has codebooks."""
        return bool(self.coarse.fitted)

    def config(self) -> dict[str, Any]:
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
        self.coarse.load_state_dict(state)

    def _fit_lists(self, x: Tensor) -> None:
        self.coarse.fit(x)

    def _nearest_lists(self, x: Tensor, count: int) -> Tensor:
        if count == 1:
            codes = self.coarse.encode(x).long()[:, None]
        else:
            codes = self.coarse.candidates(x, count).codes.long()  # (n, count, 2)
        return codes[..., 0] * self.coarse.codebook_size + codes[..., 1]

    def _centroids_of(self, lists: Tensor) -> Tensor:
        size = self.coarse.codebook_size
        first = lists.div(size, rounding_mode="floor")
        codes = first.new_empty(len(lists), 2)
        codes[:, 0], codes[:, 1] = first, lists.remainder(size)
        return self.coarse.decode(codes)

"""The inverted file: lists around k-means centroids (IVFADC)."""

import torch
from torch import Tensor

from gradsnap.coders.checks import checked_rows
from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers.block_tables import Blocks
from gradsnap.coders.quantizers.kmeans import assign, kmeans
from gradsnap.errors import InputError
from gradsnap.index.index import Config
from gradsnap.index.lists import ListedIndex
from gradsnap.index.probing import Centroids
from gradsnap.index.rerank import Refiner
from gradsnap.index.together import Coarse

ROWS_PER_LIST = 64
"""Centroids are learned from at most so many rows a list."""


class InvertedIndex(ListedIndex):
    """IVFADC (Jégou et al. 2011): each item is in the list of its nearest centroid.

    Args:
        coder: a quantizer of vectors, or of residuals; fitted, or fitted by ``fit``.
        num_lists: how many centroids ``fit`` learns.
        centroids: your own, (num_lists, dim); nothing is learned then.
        residual: whether codes are of residuals or of the vectors themselves.
        probes: lists a query looks into.
        refiner: ``HalfPrecision`` or ``LongerCode``; None for no re-ranking.
        seed: of k-means.

    Example:
        >>> import gradsnap as gs
        >>> x = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
        >>> quantizer = gs.ProductQuantizer(dim=8, num_codebooks=4, codebook_size=16)
        >>> index = gs.InvertedIndex(quantizer, num_lists=10, residual=True).fit(x)
        >>> ids, distances = index.add(x).search(x[:2], k=3)
    """

    kind = "inverted"

    def __init__(
        self,
        coder: Coder,
        *,
        num_lists: int | None = None,
        centroids: Tensor | None = None,
        residual: bool = False,
        probes: int = 8,
        refiner: Refiner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(coder, residual=residual, probes=probes, refiner=refiner)
        self.seed = seed
        self.centroids: Tensor | None = None
        self._compared: tuple[Tensor, Centroids] | None = None
        if centroids is not None:
            self.centroids = checked_rows(centroids, coder.dim, coder.dtype)
            num_lists = len(centroids)
        if num_lists is None or num_lists < 1:
            raise InputError(
                f"num_lists must be at least 1, or centroids be given; got {num_lists}"
            )
        self.num_lists = num_lists

    @classmethod
    def _sizes(cls, count: int, num_lists: int | None, residual: bool) -> Config:
        """As many lists as the root of ``count``, unless told; at most one an item."""
        return {"num_lists": lists_for(count, num_lists), "residual": residual}

    @property
    def fitted(self) -> bool:
        """Whether there are centroids."""
        return self.centroids is not None

    def config(self) -> Config:
        """The constructor's plain arguments."""
        return {
            "num_lists": self.num_lists,
            "residual": self.residual,
            "probes": self.probes,
            "seed": self.seed,
        }

    def state(self) -> dict[str, Tensor]:
        """The centroids."""
        return {} if self.centroids is None else {"centroids": self.centroids}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        self.centroids = checked_rows(
            state["centroids"], self.coder.dim, self.coder.dtype
        )

    def _fit_lists(self, x: Tensor) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        most = ROWS_PER_LIST * self.num_lists
        if len(x) > most:
            x = x[torch.randperm(len(x), generator=generator)[:most].to(x.device)]
        if len(x) == 0:
            raise InputError("fit needs at least one row; got none")
        found, _ = kmeans(x[None], self.num_lists, generator=generator, iterations=10)
        self.centroids = found[0]

    def _nearest_lists(self, x: Tensor, count: int) -> Tensor:
        centroids = self._require_centroids()
        if count == 1:
            return assign(x[None], centroids[None])[0][:, None]
        return self._as_compared(centroids).nearest(x, count)

    def _in_cells(self, x: Tensor) -> Blocks:
        return Blocks(x, self._require_centroids())

    def _coarse(self, words: Tensor) -> Coarse:
        own = self._as_compared(words)
        return Coarse(own.tiles, own.padded)

    def _as_compared(self, centroids: Tensor) -> Centroids:
        """The centroids as queries are compared with them; made once."""
        if self._compared is None or self._compared[0] is not centroids:
            self._compared = centroids, Centroids.of(centroids)
        return self._compared[1]

    def _centroids_of(self, lists: Tensor) -> Tensor:
        return self._require_centroids()[lists]

    def _require_centroids(self) -> Tensor:
        if self.centroids is None:
            raise self._not_fitted()
        return self.centroids


def lists_for(count: int, num_lists: int | None) -> int:
    """How many lists so many items get: their root, unless told, and at most one each.

    >>> lists_for(10_000, None), lists_for(10_000, 64), lists_for(10, 64)
    (100, 64, 10)
    """
    return max(1, min(num_lists or round(count**0.5), count))

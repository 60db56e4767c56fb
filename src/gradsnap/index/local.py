"""The locally optimized inverted file: each list rotates its residuals."""

import torch
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers.optimized import balanced_directions
from gradsnap.errors import InputError
from gradsnap.index.index import Config
from gradsnap.index.inverted import InvertedIndex, lists_for
from gradsnap.index.rerank import Refiner

ROWS_PER_DIMENSION = 4
"""A list learns a rotation of its own from at least so many rows a dimension."""


class LocallyOptimizedIndex(InvertedIndex):
    """LOPQ (Kalantidis and Avrithis 2014) on top of IVF, with shared codebooks.

    Each list rotates its residuals so that their variance is spread evenly over the
    quantizer's blocks; one quantizer, fitted to the rotated residuals of all lists,
    encodes them. Lists with few rows take the rotation of all residuals together. The
    rotations take ``num_lists · dim²`` floats.

    Args:
        coder: best a ``ProductQuantizer`` that is not fitted, so that ``fit`` fits it
            to the rotated residuals.
        num_lists: how many centroids ``fit`` learns.
        centroids: your own, (num_lists, dim); ``fit`` then learns only rotations.
        probes: lists a query looks into.
        refiner: ``HalfPrecision`` or ``LongerCode``; None for no re-ranking.
        seed: of k-means.
    """

    kind = "local"

    def __init__(
        self,
        coder: Coder,
        *,
        num_lists: int | None = None,
        centroids: Tensor | None = None,
        probes: int = 8,
        refiner: Refiner | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            coder,
            num_lists=num_lists,
            centroids=centroids,
            residual=True,
            probes=probes,
            refiner=refiner,
            seed=seed,
        )
        self.rotations: Tensor | None = None

    @classmethod
    def _sizes(cls, count: int, num_lists: int | None, residual: bool) -> Config:
        """As many lists as the root of ``count``, unless told."""
        if residual:
            raise InputError(
                "an index of kind local always codes residuals: leave out --residual"
            )
        return {"num_lists": lists_for(count, num_lists)}

    @property
    def fitted(self) -> bool:
        """Whether there are centroids and rotations."""
        return self.rotations is not None

    def config(self) -> Config:
        """The constructor's plain arguments."""
        settings = super().config()
        del settings["residual"]
        return settings

    def state(self) -> dict[str, Tensor]:
        """Centroids and rotations."""
        own = {} if self.rotations is None else {"rotations": self.rotations}
        return super().state() | own

    def restore(self, state: dict[str, Tensor]) -> None:
        """Takes back what ``state`` gave."""
        super().restore(state)
        shape = (self.num_lists, self.coder.dim, self.coder.dim)
        self.rotations = state["rotations"].view(shape)

    def _fit_lists(self, x: Tensor) -> None:
        if self.centroids is None:
            super()._fit_lists(x)
        lists = self._nearest_lists(x, 1)[:, 0]
        left = x - self._centroids_of(lists)
        blocks = min(self.coder.num_codebooks, self.coder.dim)
        shared = balanced_directions(left, blocks)
        rotations = [shared] * self.num_lists
        for number in range(self.num_lists):
            own = left[lists == number]
            if len(own) >= ROWS_PER_DIMENSION * x.shape[1]:
                rotations[number] = balanced_directions(own, blocks)
        self.rotations = torch.stack(rotations)

    def _left(self, x: Tensor, lists: Tensor) -> Tensor:
        """Residuals of x (n, dim) in the rotation of lists (n,), list by list."""
        return self._rotate(super()._left(x, lists), lists, backwards=False)

    def _whole(self, left: Tensor, lists: Tensor) -> Tensor:
        """The vectors (n, dim) of which ``_left`` leaves ``left``."""
        return super()._whole(self._rotate(left, lists, backwards=True), lists)

    def _rotate(self, left: Tensor, lists: Tensor, *, backwards: bool) -> Tensor:
        if self.rotations is None:
            return left
        rotated = torch.empty_like(left)
        for number in lists.unique().tolist():
            rows, rotation = lists == number, self.rotations[number]
            rotated[rows] = left[rows] @ (rotation.T if backwards else rotation)
        return rotated

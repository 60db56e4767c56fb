"""DSCH and DRSCH: triplets and a Laplacian term; DRSCH also weighs its bits."""

import torch
from torch import Tensor, nn

from gradsnap.losses.pairs import alike_and_unlike, mean_over_pairs
from gradsnap.losses.relations import Target
from gradsnap.losses.triplet import SquaredTripletLoss
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import check_strength


class SmoothTripletLoss(SquaredTripletLoss):
    """Triplets, and ½λ Σ S d = λ tr(H L Hᵀ), of d = ‖h − h′‖² / (4·bits).

    Zhang et al., "Bit-scalable deep hashing with regularized similarity learning for
    image retrieval and person re-identification", TIP 2015: a hinge for each triplet,
    and a term that keeps like items together, with L the Laplacian of S. Of signs h, d
    is the share of bits that differ. S is here 1 for rows that share a label, and the
    term the mean over pairs. Checked against the authors' code
    (ruixuejianfei/BitScalableDeepHash), which has the same two terms of outputs
    tanh(βy), β growing, and an L that is given with the data.

    Args:
        bits: length of a hash.
        margin: which further share of its bits an unlike row should differ in. The
            authors' code has 5 of squared distances, 5/256 of 64 bits, and lets it
            grow while it trains.
        smoothness: λ; 0.001 in that code, for sums over the triplets of a batch.
    """

    def __init__(
        self, bits: int, margin: float = 0.05, smoothness: float = 0.1
    ) -> None:
        super().__init__(margin)
        check_strength(smoothness)
        self.bits = bits
        self.smoothness = smoothness

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """The share of bits that differ, (n, n), where queries and items are signs."""
        return super().compare(queries, items) / (4 * self.bits)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """Both terms, of shares (n, n)."""
        same, other = alike_and_unlike(labels)
        apart = mean_over_pairs(compared * same, same | other)
        return super().loss_of_pairs(compared, labels) + self.smoothness / 2 * apart

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        own = f"bits={self.bits}, margin={self.margin}"
        return f"{own}, smoothness={self.smoothness}"


class BitWeightedLoss(SmoothTripletLoss):
    """The same of w ⊙ h: each bit has a weight, learned with the network.

    The weights are brought to a mean square of one, since their scale, which would
    only grow against the margin, decides nothing in a search.
    """

    def __init__(
        self, bits: int, margin: float = 0.05, smoothness: float = 0.1
    ) -> None:
        super().__init__(bits, margin, smoothness)
        self.weights = nn.Parameter(torch.ones(bits))

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """The weighted share of bits that differ, (n, n)."""
        length = torch.linalg.vector_norm(self.weights)
        scale = (self.weights / length * self.bits**0.5).to(queries.dtype)
        return super().compare(
            scale * queries, None if items is None else scale * items
        )


SHARPENING = {
    "options": {"sharpness": 4.0},
    "first": {"sharpness": 1.0},
    "warmup": 0.0,
    "ramp": 1.0,
}
"""The outputs come nearer to signs while the network trains, as in the paper."""

MARGINS = ("loss.options.margin", (0.05, 0.02, 0.1))

DSCH = Recipe(
    summary="Zhang et al. 2015: triplet loss with a Laplacian term, of tanh outputs",
    loss=SmoothTripletLoss,
    layer="tanh",
    coder="sign",
    settings={"layer": SHARPENING},
    tries=MARGINS,
)
"""The authors' method without weights of bits."""

DRSCH = Recipe(
    summary="Zhang et al. 2015: the same with a learned weight a bit, weighted Hamming",
    loss=BitWeightedLoss,
    layer="tanh",
    coder="weighted",
    settings={"layer": SHARPENING, "coder": {"options": {"hasher": "sign"}}},
    tries=MARGINS,
)
"""Departure: while it trains, the loss weighs tanh outputs as in the paper; what is
searched has weights that the coder ``weighted`` finds for the finished bits, by least
squares over pairs of training items. The former fit outputs that are no bits yet.
"""

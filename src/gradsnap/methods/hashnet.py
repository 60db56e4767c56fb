"""HashNet: hashes by continuation, from a soft tanh to nearly the sign."""

from torch import Tensor
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.pairs import (
    PairLoss,
    alike_and_unlike,
    inner_products,
    mean_over_pairs,
    shared_labels,
)
from gradsnap.losses.relations import Relations, Target
from gradsnap.methods.method import Recipe


class WeightedPairsLoss(PairLoss):
    """log(1 + exp θ) − sθ, alike and unlike pairs weighing the same in all.

    Cao et al., "HashNet: deep learning to hash by continuation", ICCV 2017, equation
    4: each pair is weighted by |S|/|S₁| if alike and |S|/|S₀| if not, so that the mean
    over all pairs is the mean over alike pairs plus the mean over unlike ones. S is
    here that of the batch. θ = α⟨h, h′⟩ with α = scale / bits, which is 10 / bits in
    the authors' code (thuml/HashNet), against which this was checked; there one weight
    for alike pairs is given for the whole run, or the two above.

    Of rows with several labels, an alike pair also counts by the share of its labels
    that both rows have; the authors' Caffe code has 4·both² / (own · other's).

    Args:
        bits: length of a hash.
        scale: of θ: its largest value, where h = h′ are signs.
    """

    def __init__(self, bits: int, scale: float = 10.0) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise InputError(f"scale must be positive and finite, got {scale}")
        self.bits = bits
        self.scale = scale

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """θ, (n, n)."""
        return self.scale / self.bits * inner_products(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The two means, of θ (n, n)."""
        same, other = alike_and_unlike(labels)
        near = _overlap(labels).to(compared) * functional.softplus(-compared)
        far = functional.softplus(compared)
        return mean_over_pairs(near, same) + mean_over_pairs(far, other)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"bits={self.bits}, scale={self.scale}"


def _overlap(labels: Target) -> Tensor:
    """Of each two rows, labels both have over labels either has, (n, n)."""
    if isinstance(labels, Relations):
        return labels.alike.float()
    both = shared_labels(labels)
    if labels.ndim == 1:
        return both
    counts = labels.float().sum(dim=1)
    return both / (counts[:, None] + counts - both).clamp_min(1)


HASHNET = Recipe(
    summary="Cao et al. 2017: weighted pair-wise logistic loss of tanh(β y), β rising",
    loss=WeightedPairsLoss,
    layer="tanh",
    coder="sign",
    settings={
        "layer": {
            "options": {"sharpness": 10.0},
            "first": {"sharpness": 1.0},
            "warmup": 0.0,
            "ramp": 1.0,
        }
    },
    tries=("loss.options.scale", (10.0, 5.0, 20.0)),
)
"""Departure: β grows in a straight line from 1 to 10 over the run. The paper trains to
the end at one β after the other, for which no run here has the time; the authors' code
has β = √(1 + step/200), which ends at 7 after its 10,000 steps.
"""

"""PQN: a product quantization network, learned through a soft choice of codewords."""

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.pairs import PairLoss, alike_and_unlike, squared_distances
from gradsnap.losses.relations import Target
from gradsnap.methods.method import Recipe


class AsymmetricTripletLoss(PairLoss):
    """Mean of log(1 + exp(‖a − p‖² − ‖a − n‖²)): a is a query, p and n are items.

    Yu, Yuan, Fang and Jin, "Product quantization network for fast image retrieval",
    ECCV 2018: log(1 + exp(⟨x, s₋⟩ − ⟨x, s₊⟩)) of the query's vector x and the items'
    soft reconstructions s. No code of the authors was found; checked against VL-Group's
    ModFire, which has the same softplus of inner products of query and reconstruction.

    Departures: squared distances, by which search ranks, where the paper normalizes
    blocks and codewords to unit length, so that inner products rank alike; and of each
    query the ``negatives`` nearest items that share no label, where the paper draws
    triplets.

    Args:
        negatives: how many items that share no label each query is compared with.

    Example:
        >>> rows, labels = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 0, 1])
        >>> AsymmetricTripletLoss()(rows, labels)  # mean of log(1+e⁻³), log 2
        tensor(0.3709)
    """

    def __init__(self, negatives: int = 64) -> None:
        super().__init__()
        if negatives < 1:
            raise InputError(f"negatives must be at least 1, got {negatives}")
        self.negatives = negatives

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """Squared distances (n, n)."""
        return squared_distances(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over triplets of a query, then over queries, of (n, n)."""
        same, other = alike_and_unlike(labels)
        count = min(self.negatives, len(compared))
        far = compared.masked_fill(~other, torch.inf)
        nearest = far.topk(count, dim=1, largest=False).indices  # (n, k)
        apart = compared.gather(1, nearest)
        gaps = compared[:, :, None] - apart[:, None]  # p by n: (n, n, k)
        taken = same[:, :, None] & other.gather(1, nearest)[:, None]
        losses = functional.softplus(gaps) * self.weigh(compared, nearest)
        per_query = taken.sum(dim=(1, 2))
        sums = losses.masked_fill(~taken, 0).sum(dim=(1, 2)) / per_query.clamp_min(1)
        return sums.sum() / (per_query > 0).sum().clamp_min(1)

    def weigh(self, compared: Tensor, nearest: Tensor) -> Tensor:
        """How much triplets of p and nearest (n, k) count: (n, n, k), or 1."""
        return compared.new_ones(())

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"negatives={self.negatives}"


PQN = Recipe(
    summary="Yu et al. 2018: asymmetric triplet loss through soft product codes",
    loss=AsymmetricTripletLoss,
    layer="soft-codes",
    settings={"coder": {"learn": "gradient"}},
    tries=("layer.options.temperature", (0.1, 0.03, 0.3)),
)
"""Items are soft reconstructions, and their codewords learn by gradient.

Departure: codebooks begin with k-means after the warm-up, where the paper's begin at
random. Its α, of inner products of unit vectors, is 1/τ of the layer's distances.
"""

"""DSRH, the paper's DSFH: whole rankings, with several levels of relevance."""

from functools import partial

from torch import Tensor, nn

from gradsnap.coders.coder import Coder
from gradsnap.losses import ListwiseLoss
from gradsnap.losses.pairs import inner_products
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import check_strength


class HammingListwiseLoss(ListwiseLoss):
    """The list-wise loss of the share of bits that differ, (1 − ⟨h, h′⟩/bits) / 2.

    Zhao et al., "Deep semantic ranking based hashing for multi-label image retrieval",
    CVPR 2015: the surrogate of NDCG by weighted triplets, with Hamming distances
    relaxed to outputs h of tanh; as a share of all bits, so that one margin serves
    hashes of any length.

    Args:
        margin: how much farther than the more relevant a less relevant row should be.
    """

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """The share of bits that differ, (n, n), where queries and items are signs."""
        return (1 - inner_products(queries, items) / queries.shape[1]) / 2


class ZeroMeanPenalty(nn.Module):
    """½α‖mean tanh y‖²/bits: bits as often 1 as −1, the balance term of the same.

    Args:
        strength: α.
    """

    def __init__(self, strength: float = 0.05) -> None:
        super().__init__()
        check_strength(strength)
        self.strength = strength

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, bits)."""
        mean = embeddings.tanh().sum(dim=0) / max(len(embeddings), 1)  # (bits,)
        return self.strength / 2 * mean.square().mean()

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"strength={self.strength}"


DSRH = Recipe(
    summary="Zhao et al. 2015 (DSFH): list-wise ranking of levels, zero mean",
    loss=partial(HammingListwiseLoss, margin=0.05),
    regularizer=ZeroMeanPenalty,
    layer="tanh",
    coder="sign",
    settings={"layer": {"options": {"sharpness": 2.0}}},
    tries=("loss.options.margin", (0.05, 0.02, 0.1)),
)
"""Departures: the hash is made of the last layer of the trunk alone, not of the last
two; the norm of the weights is the optimizer's weight decay. With one label a row there
are two levels of relevance, and the loss is a triplet loss over whole lists.

Neither the paper nor code of its authors was at hand: the form of both terms is from
memory, and margin and α were chosen here.
"""

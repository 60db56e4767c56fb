"""DHN: a deep hashing network, whose outputs are pulled to −1 and 1."""

import math

from torch import Tensor, nn
from torch.nn import functional

from gradsnap.coders.coder import Coder
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import check_strength


class BimodalPenalty(nn.Module):
    """λ·mean Σₖ log cosh(|tanh yₖ| − 1): a smooth l1 distance of bits to −1 and 1.

    The quantization loss of DHN: the likelihood of outputs under a bimodal Laplacian
    prior, with its absolute value made smooth by log cosh. λ = 0.2 and the sum over
    bits are those of the authors' code (thuml/hash-caffe); the mean is over rows, as
    the loss is a mean over pairs.

    Args:
        strength: λ.
    """

    def __init__(self, strength: float = 0.2) -> None:
        super().__init__()
        check_strength(strength)
        self.strength = strength

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, bits)."""
        off = embeddings.tanh().abs() - 1
        # log cosh z = z + softplus(−2z) − log 2, without the exponentials of cosh
        smooth = off + functional.softplus(-2 * off) - math.log(2)
        return self.strength * smooth.sum() / max(len(embeddings), 1)

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"strength={self.strength}"


DHN = Recipe(
    summary="Zhu et al. 2016: pair-wise logistic loss, outputs pulled to −1 and 1",
    loss="logistic",
    regularizer=BimodalPenalty,
    layer="tanh",
    coder="sign",
)
"""The embedding has one dimension a bit; its signs are the hash.

Zhu et al., "Deep hashing network for efficient similarity retrieval", AAAI 2016: the
likelihood of alike and unlike under a logistic model of θ = ⟨h, h′⟩, h = tanh y, all
pairs weighing the same. Checked against the authors' first code (thuml/hash-caffe); the
paper itself was not at hand. Their later code (thuml/DeepHash) has ten times the cosine
for θ, and alike pairs, which are few, weigh as all pairs together do.
"""

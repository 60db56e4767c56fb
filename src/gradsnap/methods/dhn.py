"""DHN: a deep hashing network, whose outputs are pulled to −1 and 1."""

import math

from torch import Tensor, nn
from torch.nn import functional

from gradsnap.coders.coder import Coder
from gradsnap.errors import InputError
from gradsnap.losses.pairs import PairLoss, alike_and_unlike, cosines, mean_over_pairs
from gradsnap.losses.relations import Target
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import check_strength


class ScaledLogisticLoss(PairLoss):
    """log(1 + exp θ) − sθ of θ = α cos(h, h′), alike pairs weighing |S| / |S₁|.

    Zhu et al., "Deep hashing network for efficient similarity retrieval", AAAI 2016,
    has the likelihood of s under a logistic model of θ = ⟨h, h′⟩, all pairs weighing
    the same, and so does the authors' first code (thuml/hash-caffe). Inner products
    grow with the length of a hash, and with them MAP fell from 12 to 48 bits in our
    table of CIFAR-10. Here θ and the weights are those of the authors' later code
    (thuml/DeepHash): α = 10 times the cosine, and alike pairs, which are few, weigh as
    all pairs together do. ``loss.name=logistic`` is the paper's. The mean is over the
    pairs of a batch.

    Args:
        scale: α, the largest value of θ.
    """

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise InputError(f"scale must be positive and finite, got {scale}")
        self.scale = scale

    def compare(self, queries: Tensor, items: Tensor | None) -> Tensor:
        """θ, (n, n)."""
        return self.scale * cosines(queries, items)

    def loss_of_pairs(self, compared: Tensor, labels: Target) -> Tensor:
        """The mean over alike pairs, and unlike ones over all pairs, of θ (n, n)."""
        same, other = alike_and_unlike(labels)
        near, far = functional.softplus(-compared), functional.softplus(compared)
        unlike = mean_over_pairs(far.masked_fill(~other, 0), same | other)
        return mean_over_pairs(near, same) + unlike

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        return f"scale={self.scale}"


class BimodalPenalty(nn.Module):
    """λ·mean log cosh(|tanh yₖ| − 1): a smooth l1 distance of bits to −1 and 1.

    The quantization loss of DHN: the likelihood of outputs under a bimodal Laplacian
    prior, with its absolute value made smooth by log cosh. The mean is over rows and
    bits, and λ = 0.2, as thuml/hash-caffe reports the term; what it descends is a sum
    over bits, against θ that reach as far as there are bits. The later code, whose θ
    do not, has a mean of squares, and λ = 0 in its command.

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
        return self.strength * smooth.sum() / max(smooth.numel(), 1)

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"strength={self.strength}"


DHN = Recipe(
    summary="Zhu et al. 2016: pair-wise logistic loss, outputs pulled to −1 and 1",
    loss=ScaledLogisticLoss,
    regularizer=BimodalPenalty,
    layer="tanh",
    coder="sign",
)
"""The embedding has one dimension a bit; its signs are the hash. A tanh stands before
both terms, as in both codes of the authors. The equations were checked against these;
the paper itself was not at hand.
"""

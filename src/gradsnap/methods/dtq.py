"""DTQ: deep triplet quantization, with codebooks that overlap little."""

from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import QuantizationPenalty, check_strength


class OrthogonalityPenalty(QuantizationPenalty):
    """λ·(mean‖y − Σₘ cₘ‖² + γ·mean ⟨c, c′⟩²), c and c′ of different codebooks.

    Liu, Cao, Long, Wang and Wang, "Deep triplet quantization", ACM Multimedia 2018: the
    triplet quantization loss, whose weak orthogonality makes codebooks less redundant.
    Embeddings and, where they learn by gradient, codewords descend the same term.

    Only the abstract and the authors' code (thuml/DeepHash) were at hand, and that code
    leaves weak orthogonality out, and has λ = 0 where none is given; decided here:
    squared inner products of codewords, the mean over all pairs from different
    codebooks. Of a product quantizer they are zero.

    Args:
        strength: λ.
        orthogonality: γ.
    """

    def __init__(self, strength: float = 0.01, orthogonality: float = 0.1) -> None:
        super().__init__(strength)
        check_strength(orthogonality)
        self.orthogonality = orthogonality

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, dim) and the coder's codebooks."""
        error = super().forward(embeddings, coder)
        if not isinstance(coder, Quantizer) or not coder.fitted:
            return error
        overlap = mean_overlap(coder.codebooks, coder.dim).to(error.dtype)
        return error + self.strength * self.orthogonality * overlap

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"{super().extra_repr()}, orthogonality={self.orthogonality}"


def mean_overlap(codebooks: Tensor, dim: int) -> Tensor:
    """Mean ⟨c, c′⟩² over all words of different codebooks (M, K, dim); else zero."""
    num_codebooks, size, width = codebooks.shape
    if num_codebooks == 1 or width != dim:  # blocks share no dimension
        return codebooks.new_zeros(())
    words = codebooks.flatten(0, 1)
    squares = (words @ words.T).square().view(num_codebooks, size, num_codebooks, size)
    within = squares.diagonal(dim1=0, dim2=2).sum()
    pairs = num_codebooks * (num_codebooks - 1) * size**2
    return (squares.sum() - within) / pairs


DTQ = Recipe(
    summary="Liu et al. 2018: triplet loss, additive codes of weakly orthogonal words",
    regularizer=OrthogonalityPenalty,
    coder="rvq",
    settings={
        "loss": {"triplets": "semi-hard"},
        "coder": {"learn": "gradient"},
    },
)
"""Codewords over all dimensions learn by gradient of the quantization loss.

Departures: the hinge is of distances with a margin of 1, where the authors' code has
squared ones of tanh outputs and a margin of 30; triplets are semi-hard ones of the
batch, where the paper takes a random negative within the margin for each pair within
random groups; codebooks follow at each step by
gradient, where the paper solves for them each epoch; they begin with residual
quantization, where the paper's begin with product quantization, and codes are found by
a beam instead of one codebook after the other.
"""

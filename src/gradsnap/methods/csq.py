"""CSQ: central similarity; every item is pulled to the hash centre of its class."""

from torch import Tensor
from torch.nn import functional

from gradsnap.coders.coder import Coder
from gradsnap.coders.hashers.hasher import signs_of
from gradsnap.losses.classification import check_classes
from gradsnap.losses.rows import RowLoss
from gradsnap.methods.centers import hash_centers
from gradsnap.methods.dhn import BimodalPenalty
from gradsnap.methods.method import Recipe


class CentralSimilarityLoss(RowLoss):
    """Cross entropy between the bits of a row and those of its centre.

    Yuan et al., "Central similarity quantization for efficient image and video
    retrieval", CVPR 2020: −mean (c log h + (1 − c) log(1 − h)) with centres c of
    Hadamard matrices. h = (1 + tanh y)/2 is σ(2y), so that the loss is taken of y and
    never of the logarithm of a rounded 0. A row with several labels has for a centre
    the majority of its labels' centres, ties by a drawn hash; a row without a label has
    that hash. All this as in the authors' code
    (yuanli2333/Hadamard-Matrix-for-hashing), against which it was checked.

    Departure: Paley's matrices serve lengths such as 12, 24 and 48, where the paper,
    which knows powers of two alone, draws its centres.

    Args:
        num_classes: how many classes or labels there are.
        dim: length of the hash and of the embedding.
        seed: of what is drawn.
    """

    centers: Tensor
    ties: Tensor

    def __init__(self, num_classes: int, dim: int, seed: int = 0) -> None:
        super().__init__()
        drawn = hash_centers(num_classes + 1, dim, seed)
        self.register_buffer("centers", drawn[:-1])  # (num_classes, dim)
        self.register_buffer("ties", drawn[-1])  # (dim,)

    def loss_of_rows(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The mean over rows (n, dim) and their bits."""
        check_classes(rows, labels, *self.centers.shape)
        wanted = self.centers_of(labels).to(rows)
        total = functional.binary_cross_entropy_with_logits(
            2 * rows, (wanted + 1) / 2, reduction="sum"
        )
        return total / max(rows.numel(), 1)

    def centers_of(self, labels: Tensor) -> Tensor:
        """The centre of each row, −1 and 1 (n, dim), of labels (n,) or (n, L)."""
        if labels.ndim == 1:
            return self.centers[labels.long()]
        votes = labels.to(self.centers.dtype) @ self.centers  # (n, dim)
        return signs_of(votes + 0.5 * self.ties)  # a half decides ties and no more

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        num_classes, dim = self.centers.shape
        return f"num_classes={num_classes}, dim={dim}"


class MeanBimodalPenalty(BimodalPenalty):
    """λ·mean log cosh(|tanh yₖ| − 1), over rows and bits: CSQ's quantization term.

    Args:
        strength: λ.
    """

    def __init__(self, strength: float = 1e-3) -> None:
        super().__init__(strength)

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, bits)."""
        return super().forward(embeddings, coder) / max(embeddings.shape[1], 1)


CSQ = Recipe(
    summary="Yuan et al. 2020: bits pulled to the hash centre of each class",
    loss=CentralSimilarityLoss,
    regularizer=MeanBimodalPenalty,
    coder="sign",
)
"""The quantization term is DHN's, as a mean over bits.

The paper was not at hand. The authors' code has a mean too, of (|tanh yₖ| − 1)², which
is twice log cosh where it is small. Their commands have λ = 0.001 with AlexNet (once
0.0001) and 0.05 with ResNet-50, and no pair-wise loss beside it.
"""

"""OrthoHash: one loss, the cosine to orthogonal hashes of the classes."""

from torch import Tensor
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.classification import check_classes
from gradsnap.losses.pairs import cosines
from gradsnap.losses.rows import RowLoss
from gradsnap.methods.centers import hash_centers
from gradsnap.methods.method import Recipe


class OrthogonalTargetsLoss(RowLoss):
    """Cross entropy of s(cos(y, oⱼ) − m[j is a label]) over the classes j.

    Hoe et al., "One loss for all: deep hashing with a single cosine similarity based
    learning objective", NeurIPS 2021. The targets o are hashes that do not learn; a
    high cosine to one is both a class told and a small error of the signs. Checked
    against the authors' code (kamwoh/orthohash): s = 8 and m = 0.2 are its defaults
    (0.3 in its command for CIFAR-10), its weight of a quantization term is 0, and of
    several labels each has an equal share. A row without a label adds nothing.

    Departure: the targets are rows of Hadamard matrices, which are orthogonal for as
    many classes as bits, instead of drawn bits, which are so on average.

    Args:
        num_classes: how many classes or labels there are.
        dim: length of the hash and of the embedding.
        scale: s.
        margin: m.
        seed: of targets that are drawn.
    """

    targets: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        scale: float = 8.0,
        margin: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise InputError(f"scale must be positive and finite, got {scale}")
        if not 0 <= margin < float("inf"):
            raise InputError(f"margin must be zero or more and finite, got {margin}")
        self.scale = scale
        self.margin = margin
        targets = hash_centers(num_classes, dim, seed)
        self.register_buffer("targets", targets)  # (num_classes, dim)

    def loss_of_rows(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The mean over rows (n, dim)."""
        check_classes(rows, labels, *self.targets.shape)
        near = cosines(rows, self.targets.to(rows))  # (n, num_classes)
        if labels.ndim == 1:
            labels = functional.one_hot(labels.long(), len(self.targets)).bool()
        own = labels.to(near)
        logits = self.scale * (near - self.margin * own)
        shares = own / own.sum(dim=1, keepdim=True).clamp_min(1)
        total = -(shares * logits.log_softmax(dim=1)).sum()
        return total / max(len(rows), 1)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        num_classes, dim = self.targets.shape
        return (
            f"num_classes={num_classes}, dim={dim}, scale={self.scale}, "
            f"margin={self.margin}"
        )


ORTHOHASH = Recipe(
    summary="Hoe et al. 2021: cosine to orthogonal hashes of classes, with a margin",
    loss=OrthogonalTargetsLoss,
    coder="sign",
    settings={"network": {"feat": "standardized"}},
    tries=("loss.options.scale", (8.0, 4.0, 16.0)),
)
"""Batch normalization ends the network, which balances the bits, as in the paper."""

"""DPQ: end-to-end supervised product quantization, by soft and hard assignments."""

import torch
from torch import Tensor, nn

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError
from gradsnap.layers.soft_codes import HARD, assignments
from gradsnap.losses.classification import ClassificationLoss
from gradsnap.losses.relations import Relations, Target
from gradsnap.methods.method import Recipe
from gradsnap.methods.regularizers import check_strength


class JointCentralLoss(nn.Module):
    """Both representations are classified, and pulled to their class's one centre.

    Klein and Wolf, "End-to-end supervised product quantization for image search and
    retrieval", CVPR 2019: the cross entropy of one classifier for soft and for hard
    representations, and the joint central loss ½‖soft − o_y‖² + ½‖hard − o_y‖², whose
    centres o are shared, so that the two come near each other too. Means over rows. No
    code of the authors was found; checked against two re-implementations (VL-Group's
    ModFire, and a layer ``DPQJointClassLoss``), and 0.1 against a summary of the paper.

    Departure: in place of the soft representation stands the embedding itself, since
    that is what search compares with codes here; the soft one is the way the gradient
    takes from the hard (``HardCodes``). With several labels a row's centre is the mean
    of theirs.

    Args:
        num_classes: how many classes or labels there are.
        dim: length of the embedding.
        strength: of the joint central loss.
        seed: of the classifier's and the centres' first weights.
    """

    def __init__(
        self, num_classes: int, dim: int, strength: float = 0.1, seed: int = 0
    ) -> None:
        super().__init__()
        check_strength(strength)
        self.strength = strength
        self.classifier = ClassificationLoss(num_classes, dim, seed)
        generator = torch.Generator().manual_seed(seed)
        centres = torch.randn(num_classes, dim, generator=generator)
        self.centres = nn.Parameter(centres / dim**0.5)

    def forward(
        self, embeddings: Tensor, labels: Target, *, items: Tensor | None = None
    ) -> Tensor:
        """The scalar loss of embeddings (n, dim), and of items (n, dim) if given."""
        if isinstance(labels, Relations):
            raise InputError(
                "the loss of DPQ needs labels; for relations between rows choose "
                "another loss, such as supcon"
            )
        both = [embeddings] if items is None else [embeddings, items]
        centres = self._centres_of(labels).to(embeddings.dtype)
        loss = embeddings.new_zeros(())
        for rows in both:
            away = (rows - centres).square().sum() / max(2 * len(rows), 1)
            loss = loss + self.classifier(rows, labels) + self.strength * away
        return loss

    def _centres_of(self, labels: Tensor) -> Tensor:
        """The centre of each row's class, or the mean of its labels', (n, dim)."""
        if labels.ndim == 1:
            return self.centres[labels.long()]
        shares = labels.to(self.centres.dtype)
        return shares @ self.centres / shares.sum(dim=1, keepdim=True).clamp_min(1)


class GiniPenalty(nn.Module):
    """λ·meanₘ(Σₖ p̄_mk² + 1 − mean Σₖ p_mk²): all codewords used, each row by one.

    The two Gini terms of DPQ: over a batch the mean assignment p̄ should be even, and
    each row's own p should be peaked. The constant 1 keeps the sum positive. ModFire
    has the same signs, and 0.001 for both; the paper's λ was not found.

    Args:
        strength: λ.
        temperature: of the soft assignments, as the layer has it.
    """

    def __init__(self, strength: float = 0.1, temperature: float = HARD) -> None:
        super().__init__()
        check_strength(strength)
        self.strength = strength
        self.temperature = temperature

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        """The scalar term of embeddings (n, dim); 0 until the coder is fitted."""
        if not isinstance(coder, Quantizer):
            raise InputError(
                "soft assignments need a quantizer, whose codewords are assigned; got "
                f"a {type(coder).__name__}"
            )
        if not coder.fitted or not len(embeddings):
            return embeddings.new_zeros(())
        shares = assignments(coder, embeddings, self.temperature)  # (n, M, K)
        batch = shares.mean(dim=0).square().sum(dim=1)  # (M,)
        own = shares.square().sum(dim=2).mean(dim=0)
        return self.strength * (batch + 1 - own).mean()

    def extra_repr(self) -> str:
        """Shown in ``print(regularizer)``."""
        return f"strength={self.strength}, temperature={self.temperature}"


DPQ = Recipe(
    summary="Klein and Wolf 2019: classified by floats and codes, one centre a class",
    loss=JointCentralLoss,
    regularizer=GiniPenalty,
    layer="hard-codes",
    settings={"coder": {"learn": "gradient"}},
)
"""Codewords learn by gradient, from the hard representation, straight through.

Departures: the soft assignment is a softmax of distances to codewords, where the paper
learns a layer for it, so that codes are those of a product quantizer and every file,
index and export takes them; codebooks begin with k-means after the warm-up; blocks are
not normalized, as the paper's are for data of other classes.
"""

"""A linear classifier on the embedding, for networks trained to classify."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gradsnap.errors import InputError
from gradsnap.losses.rows import RowLoss


class ClassificationLoss(RowLoss):
    """Cross entropy of a linear classifier on the embedding.

    The loss of CNNH and of supervised quantization. Soft-max over the classes for one
    label a row; for several labels a row, a logistic loss for each label, averaged.
    The classifier is part of the loss: give ``loss.parameters()`` to the optimizer.

    Args:
        num_classes: how many classes or labels there are.
        dim: length of the embedding.
        seed: of the classifier's first weights.

    Example:
        >>> loss = ClassificationLoss(num_classes=4, dim=2)
        >>> loss(torch.zeros(3, 2), torch.tensor([0, 1, 2]))  # log 4
        tensor(1.3863, grad_fn=<DivBackward0>)
    """

    def __init__(self, num_classes: int, dim: int, seed: int = 0) -> None:
        super().__init__()
        if num_classes < 2 or dim < 1:
            raise InputError(
                f"expected at least 2 classes and a dim of at least 1, "
                f"got num_classes={num_classes} and dim={dim}"
            )
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(num_classes, dim, generator=generator)
        self.weight = nn.Parameter(weight / dim**0.5)
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def loss_of_rows(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The mean over rows (n, dim), and over labels where there are several."""
        check_classes(rows, labels, *self.weight.shape)
        weight, bias = self.weight.to(rows.dtype), self.bias.to(rows.dtype)
        logits = functional.linear(rows, weight, bias)  # (n, num_classes)
        if labels.ndim == 1:
            total = functional.cross_entropy(logits, labels.long(), reduction="sum")
            return total / max(len(labels), 1)
        total = functional.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype), reduction="sum"
        )
        return total / max(labels.numel(), 1)

    def extra_repr(self) -> str:
        """Shown in ``print(loss)``."""
        num_classes, dim = self.weight.shape
        return f"num_classes={num_classes}, dim={dim}"


def check_classes(rows: Tensor, labels: Tensor, classes: int, dim: int) -> None:
    """Refuses rows (n, dim) or labels that do not fit a loss of so many classes."""
    if rows.shape[1] != dim:
        raise InputError(
            f"expected embeddings of shape (n, {dim}), got {tuple(rows.shape)}"
        )
    if labels.ndim == 2 and labels.shape[1] != classes:
        raise InputError(
            f"expected {classes} labels a row, got {labels.shape[1]}; "
            f"num_classes of the loss must be the number of labels"
        )
    if labels.ndim == 1 and labels.numel():
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= classes:
            raise InputError(f"labels must lie in 0..{classes - 1}, got {low}..{high}")

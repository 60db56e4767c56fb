"""What is known of the pairs of a batch, where its rows have no labels."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Relations:
    """Which rows of a batch are alike, and which are not.

    A pair that is neither is unknown, and no loss counts it. Every loss and selector
    that compares rows takes relations where it takes labels.

    Example:
        >>> import gradsnap as gs
        >>> alike = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
        >>> unlike = torch.tensor([[0, 0, 1], [0, 0, 0], [1, 0, 0]]).bool()
        >>> rows = torch.tensor([[0.0], [1.0], [4.0]])  # 1 and 2 were never compared
        >>> gs.ContrastiveLoss(margin=5.0)(rows, Relations(alike, unlike))
        tensor(0.5000)
    """

    alike: Tensor
    """bool (n, n); a row's pair with itself never counts."""
    unlike: Tensor
    """bool (n, n), nowhere true where alike is."""
    grades: Tensor | None = None
    """How alike each pair is, floating (n, n), above 0 where alike: a loss with soft
    targets weighs alike pairs by it. None: all the same."""

    def __len__(self) -> int:
        return len(self.alike)

    @property
    def device(self) -> torch.device:
        """Where the masks are."""
        return self.alike.device

    def to(self, device: torch.device) -> "Relations":
        """The same relations on a device."""
        grades = None if self.grades is None else self.grades.to(device)
        return Relations(self.alike.to(device), self.unlike.to(device), grades)


Target = Tensor | Relations
"""What a loss is given of a batch: labels (n,) or (n, L), or relations (n, n)."""

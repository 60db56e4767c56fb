"""What all kinds of supervision without labels have in common."""

from typing import ClassVar, Self

from torch import Tensor

from gradsnap.data import Dataset, Split
from gradsnap.training.config import DataSettings


class WithoutLabels:
    """No classes; items were divided when the table or the vectors were read."""

    parts: Split
    num_classes: ClassVar[int] = 0

    def looking_at(self, items: Dataset) -> Self:
        """The same: what is known does not depend on what a trunk makes of items."""
        return self

    def split(self, settings: DataSettings) -> Split:
        """The parts that were drawn."""
        return self.parts

    def labels(self, indices: Tensor) -> Tensor | None:
        """None: a coder is fitted to embeddings alone."""
        return None

    def is_new_in_validation(self, split: Split) -> bool:
        """No: a coder is fitted to everything that is not held out."""
        return False

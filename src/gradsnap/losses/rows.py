"""What losses of single rows share: each row is judged by itself."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.losses.pairs import check_batch
from gradsnap.losses.relations import Relations, Target


class RowLoss(nn.Module, ABC):
    """A loss that compares no rows with each other; a child writes the formula."""

    def forward(
        self, embeddings: Tensor, labels: Target, *, items: Tensor | None = None
    ) -> Tensor:
        """The scalar loss.

        Args:
            embeddings: (n, dim).
            labels: integers (n,), or booleans (n, L) where rows have several labels.
            items: (n, dim), judged in place of the embeddings if given.

        Raises:
            InputError: relations, which say nothing of a single row.
        """
        check_batch(embeddings, labels, items)
        if isinstance(labels, Relations):
            raise InputError(
                f"{type(self).__name__} needs labels; for relations between rows "
                "choose another loss, such as supcon"
            )
        return self.loss_of_rows(embeddings if items is None else items, labels)

    @abstractmethod
    def loss_of_rows(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The mean over rows (n, dim)."""

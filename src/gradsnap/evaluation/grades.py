"""How relevant database items are to queries: whether, or by how many labels."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gradsnap.data.protocols import relevance
from gradsnap.errors import InputError

MOST_BITS = 62
"""Labels that fit one signed word as bits."""


@dataclass(frozen=True, eq=False)
class Grades:
    """Labels of queries and database, and the grades of their pairs.

    With one label an item the grade is 1 where labels are equal. With several it is 1
    where one is shared or, if ``graded``, the number of labels shared.
    """

    queries: Tensor
    """int64 (q,), or multi-hot bool (q, L)."""

    database: Tensor
    """int64 (n,), or multi-hot bool (n, L)."""

    graded: bool = False
    """Whether to count the labels that are shared; only with several."""

    def __post_init__(self) -> None:
        relevance(self.queries[:0], self.database[:0])  # refuses unlike shapes
        if self.several and self.queries.dtype != torch.bool:
            raise InputError(
                f"several labels an item must be bool (n, L), got {self.queries.dtype}"
            )
        if self.graded and not self.several:
            raise InputError("grades need several labels an item, multi-hot (n, L)")

    @property
    def several(self) -> bool:
        """Whether an item can have several labels."""
        return self.queries.ndim == 2

    @cached_property
    def top(self) -> int:
        """The largest grade there can be."""
        if not self.graded:
            return 1
        most = (int(part.sum(dim=1).max()) for part in (self.queries, self.database))
        return max(1, min(most))

    def block(self, rows: slice, items: slice = slice(None)) -> Tensor:
        """Grades of some queries and items: bool (b, n), or uint8 if ``graded``."""
        asked, found = self.queries[rows], self.database[items]
        if not self.graded:
            return relevance(asked, found)
        return (asked.float() @ found.float().T).to(torch.uint8)

    @cached_property
    def as_words(self) -> tuple[Tensor, Tensor] | None:
        """Labels as int64 (q,) and (n,), sets as bits; None where they do not fit."""
        if not self.several:
            return self.queries.long(), self.database.long()
        if self.queries.shape[1] > MOST_BITS:
            return None
        place = 2 ** torch.arange(self.queries.shape[1], device=self.queries.device)
        return (self.queries * place).sum(dim=1), (self.database * place).sum(dim=1)

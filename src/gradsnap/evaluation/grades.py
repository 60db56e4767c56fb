"""Which items are relevant to a query: same label, or labels in common and how many."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError

ITEM_BLOCK = 4096
"""Items whose relevance is held at once where only its sum is wanted."""

MOST_BITS = 62
"""Labels that fit one signed word as bits."""


def relevance(queries: Given, database: Given) -> Tensor:
    """Relevance of every database item to every query, bool (q, n).

    Args:
        queries: labels of the queries, int64 (q,) or multi-hot bool (q, L).
        database: labels of the database, int64 (n,) or multi-hot bool (n, L).

    Example:
        >>> relevance(torch.tensor([1]), torch.tensor([0, 1, 1]))
        tensor([[False,  True,  True]])
    """
    queries, database = as_tensor(queries), as_tensor(database)
    _check_alike(queries, database)
    if queries.ndim == 2:
        return queries.float() @ database.float().T > 0  # labels they share
    return queries[:, None] == database


def ranked_relevance(queries: Given, database: Given, ids: Given) -> Tensor:
    """Relevance of ranked results, as ``mean_average_precision`` takes it.

    Args:
        queries: labels of the queries, int64 (q,) or multi-hot bool (q, L).
        database: labels of the database, int64 (n,) or multi-hot bool (n, L).
        ids: ranked positions in the database, (q, k); −1 where there is no result.

    Returns:
        bool (q, k).
    """
    queries, database, ids = as_tensor(queries), as_tensor(database), as_tensor(ids)
    _check_alike(queries, database)
    found = database[ids.clamp_min(0)]  # (q, k) or (q, k, L)
    if queries.ndim == 2:
        return (found & queries[:, None]).any(dim=2) & (ids >= 0)
    return (found == queries[:, None]) & (ids >= 0)


def total_relevant(queries: Given, database: Given) -> Tensor:
    """How many database items are relevant to each query, int64 (q,).

    The (q, n) table is made a few thousand columns at a time, never whole.
    """
    queries, database = as_tensor(queries), as_tensor(database)
    _check_alike(queries, database)
    total = torch.zeros(len(queries), dtype=torch.int64, device=queries.device)
    for block in database.split(ITEM_BLOCK):
        total += relevance(queries, block).sum(dim=1)
    return total


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

    def counts(self, block: Tensor) -> Tensor:
        """Items of each grade, int64 (b, top + 1), of grades (b, n) from ``block``."""
        if self.top == 1:
            hits = block.sum(dim=1)
            return torch.stack([block.shape[1] - hits, hits], dim=1)
        kinds = range(self.top + 1)
        return torch.stack([(block == kind).sum(dim=1) for kind in kinds], dim=1)

    @cached_property
    def as_words(self) -> tuple[Tensor, Tensor] | None:
        """Labels as int64 (q,) and (n,), sets as bits; None where they do not fit."""
        if not self.several:
            return self.queries.long(), self.database.long()
        if self.queries.shape[1] > MOST_BITS:
            return None
        place = 2 ** torch.arange(self.queries.shape[1], device=self.queries.device)
        return (self.queries * place).sum(dim=1), (self.database * place).sum(dim=1)


def _check_alike(queries: Tensor, database: Tensor) -> None:
    alike = queries.ndim == database.ndim and queries.shape[1:] == database.shape[1:]
    if not alike or queries.ndim not in (1, 2):
        raise InputError(
            f"expected labels (q,) and (n,), or multi-hot (q, L) and (n, L); got "
            f"{tuple(queries.shape)} and {tuple(database.shape)}"
        )

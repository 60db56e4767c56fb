"""Queries and training items drawn for each label of multi-label items."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradsnap.data.protocols.protocol import (
    Indices,
    Parts,
    Pool,
    Protocol,
    check_positive,
    join,
)
from gradsnap.errors import InputError


@dataclass(frozen=True)
class NuswideProtocol(Protocol):
    """NUS-WIDE: a number of queries and of training items for each label.

    Labels are served from the rarest to the most frequent, first with queries and then
    with training items, and no item is drawn twice: 21 labels give 2,100 queries and
    10,500 training items. Items without any label are left out.
    """

    queries_per_label: int = 100
    """Items drawn for each label as test queries."""

    training_per_label: int = 500
    """Items drawn for each label to train."""

    training_in_database: bool = True
    """Whether the queries also search the training items."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("queries_per_label", self.queries_per_label)
        check_positive("training_per_label", self.training_per_label)

    def _parts(self, pool: Pool) -> Parts:
        if not pool.multi_label:
            raise InputError(
                "NuswideProtocol needs multi-hot labels, bool (n, L); for one label an "
                "item take PaperProtocol, FractionProtocol or UnseenClasses"
            )
        free = np.zeros(len(pool.labels), dtype=bool)
        free[pool.labelled()] = True
        queries = _draw(pool, free, self.queries_per_label, "queries")
        free[queries] = False
        train = _draw(pool, free, self.training_per_label, "training items")
        if not self.training_in_database:
            free[train] = False
        database = np.flatnonzero(free)
        if not len(database):
            raise InputError("the queries and training items leave no database")
        return train, queries, database


def _draw(pool: Pool, free: NDArray[np.bool_], per_label: int, purpose: str) -> Indices:
    """The first ``per_label`` free items of each label that has any."""
    left = free.copy()
    counts = pool.labels[free].sum(axis=0)  # (L,)
    parts = []
    for label in np.argsort(counts, kind="stable"):
        members = np.flatnonzero(left & pool.labels[:, label])
        if len(members) < per_label:
            raise InputError(
                f"label {label} has {counts[label]} items, of which {len(members)} are "
                f"not drawn yet: too few for {per_label} {purpose} a label"
            )
        parts.append(pool.shuffled(members)[:per_label])
        left[parts[-1]] = False
    return join(parts)

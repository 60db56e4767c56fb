"""What can be ranked: embeddings, codes of any coder, and hashes.

All rank a database for queries by blocks: ``rank`` gives the tie groups of some
queries against all items, and never holds more than a block of distances.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.coders.hamming import check_alike, hamming_distances
from gradsnap.coders.packing import as_words
from gradsnap.coders.tables import ITEM_BLOCK, add_entries
from gradsnap.compiled import spread
from gradsnap.errors import InputError
from gradsnap.evaluation.grades import Grades
from gradsnap.evaluation.groups import (
    Groups,
    groups_of_counts,
    groups_of_distances,
    kernel_for,
)
from gradsnap.progress import track

if TYPE_CHECKING:
    from gradsnap.coders.coder import Coder

BLOCK_ENTRIES = 1 << 23
"""Distances held at once, 32 MiB, unless one query alone has more."""

HASH_ROWS = 1024
"""Queries that are counted together where distances are not kept."""

RADIUS = 2
"""Hamming radius whose precision is reported: a hash table can look that far."""


class Ranked(NamedTuple):
    """Some queries against the whole database."""

    groups: Groups
    """Their tie groups, complete up to the cut."""
    grade_counts: Tensor
    """Items of each grade in the whole database, int64 (q, grades)."""
    within_radius: Tensor | None = None
    """Precision within Hamming radius 2, float64 (q,); zero where that is empty."""


class Distances(ABC):
    """Queries against a database; a child says how far apart they are."""

    num_queries: int
    num_items: int
    device: torch.device

    @abstractmethod
    def block(self, rows: slice) -> Tensor:
        """Distances of some queries to all items, float32 (b, n), not negative."""

    @property
    def block_rows(self) -> int:
        """How many queries make one block."""
        return max(1, BLOCK_ENTRIES // max(self.num_items, 1))

    def rank(self, rows: slice, grades: Grades, cut: int) -> Ranked:
        """Tie groups of some queries, complete up to rank ``cut``."""
        graded = grades.block(rows)
        groups = groups_of_distances(self.block(rows), graded, cut, grades.top)
        return Ranked(groups, grades.counts(graded))


class EmbeddingDistances(Distances):
    """Exact l2 distances of embeddings.

    Args:
        queries: floating (q, dim).
        database: floating (n, dim).
    """

    def __init__(self, queries: Given, database: Given) -> None:
        queries, database = as_tensor(queries), as_tensor(database)
        if queries.ndim != 2 or queries.shape[1:] != database.shape[1:]:
            raise InputError(
                f"expected embeddings (q, dim) and (n, dim), got "
                f"{tuple(queries.shape)} and {tuple(database.shape)}"
            )
        self.queries, self.database = queries.detach(), database.detach()
        self.norms = self.database.square().sum(dim=1)
        self.num_queries, self.num_items = len(queries), len(database)
        self.device = database.device

    def block(self, rows: slice) -> Tensor:
        """Squared distances of some queries to all items, (b, n)."""
        some = self.queries[rows]
        found = torch.addmm(self.norms, some, self.database.T, alpha=-2)
        found += some.square().sum(dim=1, keepdim=True)
        return found.float().clamp_min_(0)


class CodeDistances(Distances):
    """Asymmetric distances (ADC): queries as they are, the database as codes.

    Args:
        coder: fitted; its tables say how far a query is from a code.
        queries: floating (q, dim).
        codes: of the database, any integer type, (n, num_codebooks).
    """

    def __init__(self, coder: "Coder", queries: Given, codes: Given) -> None:
        queries, codes = as_tensor(queries), as_tensor(codes)
        self.coder, self.queries = coder, queries.detach()
        # This also refuses codes outside the codebooks, which no kernel looks for.
        parts = [coder.cross_terms(part) for part in codes.split(ITEM_BLOCK)]
        self.cross = torch.cat(parts).float()
        self.by_codebook = codes.T.contiguous()  # (M, n)
        self.num_queries, self.num_items = len(queries), len(codes)
        self.device = codes.device

    def block(self, rows: slice) -> Tensor:
        """Distances of some queries to all items, (b, n)."""
        entries, offsets = self.coder.tables(self.queries[rows])
        entries = entries.float().contiguous()
        found = offsets.float()[:, None] + self.cross  # (b, n)
        kernel, codes = kernel_for(found), self.by_codebook
        if kernel is None:
            return add_entries(entries, codes, found).clamp_min_(0)

        def add(part: slice) -> None:
            kernel.add_entries(
                entries[part].numpy(), codes.numpy(), found[part].numpy()
            )

        spread(add, _shares(len(found)))
        return found.clamp_min_(0)


class HashDistances(Distances):
    """Hamming distances of packed hashes, which are counted instead of sorted.

    Args:
        queries: uint8 (q, bytes).
        database: uint8 (n, bytes).
    """

    def __init__(self, queries: Given, database: Given) -> None:
        queries, database = as_tensor(queries), as_tensor(database)
        check_alike(queries, database)
        self.queries, self.database = queries, database
        self.levels = 8 * queries.shape[1] + 1
        self._item_words = as_words(database).T.contiguous()  # (words, n)
        self.num_queries, self.num_items = len(queries), len(database)
        self.device = database.device

    @property
    def block_rows(self) -> int:
        """How many queries make one block."""
        return HASH_ROWS

    def block(self, rows: slice) -> Tensor:
        """Hamming distances of some queries to all items, (b, n)."""
        return hamming_distances(self.queries[rows], self.database)

    def counts(self, rows: slice, grades: Grades) -> Tensor:
        """Items of each grade at each distance, int64 (b, distances, grades)."""
        kernel, labels = kernel_for(self.database), grades.as_words
        if kernel is None or labels is None:
            return self._count_in_torch(rows, grades)
        asked, found = labels
        some = self.queries[rows]
        counts = torch.zeros(len(some), self.levels, grades.top + 1, dtype=torch.int64)
        items = (self._item_words.numpy(), found.numpy())
        words, mine = as_words(some), asked[rows]

        def count(part: slice) -> None:
            own = (words[part].numpy(), mine[part].numpy())
            kernel.count_levels(own, items, grades.several, counts[part].numpy())

        spread(count, _shares(len(some)))
        return counts

    def rank(self, rows: slice, grades: Grades, cut: int) -> Ranked:
        """Tie groups of some queries; all of them, whatever the cut."""
        counts = self.counts(rows, grades)
        near = counts[:, : RADIUS + 1].sum(dim=1).double()  # (b, grades)
        within = near[:, 1:].sum(dim=1) / near.sum(dim=1).clamp_min(1)
        return Ranked(groups_of_counts(counts), counts.sum(dim=1), within)

    def _count_in_torch(self, rows: slice, grades: Grades) -> Tensor:
        some, kinds = self.queries[rows], grades.top + 1
        total = torch.zeros(
            len(some) * self.levels * kinds, dtype=torch.int64, device=self.device
        )
        offsets = torch.arange(len(some), device=self.device)[:, None] * self.levels
        step = max(1, BLOCK_ENTRIES // len(some))
        for start in range(0, self.num_items, step):
            part = slice(start, start + step)
            level = hamming_distances(some, self.database[part]).long() + offsets
            cells = level.mul_(kinds).add_(grades.block(rows, part))
            total += cells.flatten().bincount(minlength=len(total))
        return total.view(len(some), self.levels, kinds)


def code_distances(coder: "Coder", queries: Given, codes: Given) -> Distances:
    """Distances of queries (q, dim) to codes, as the coder means them.

    Plain Hamming distances are counted instead of sorted; all others come from the
    coder's tables.

    Args:
        coder: fitted.
        queries: floating (q, dim).
        codes: of the database, (n, num_codebooks).
    """
    if coder.hamming_levels is None:
        return CodeDistances(coder, queries, codes)
    return HashDistances(coder.encode(queries), codes)


@torch.no_grad()
def nearest_items(distances: Distances, k: int) -> Tensor:
    """The k nearest items of each query, nearest first, int64 (q, k); by blocks."""
    if not 1 <= k <= distances.num_items:
        raise InputError(f"k must be 1 to {distances.num_items} items, got {k}")
    rows = distances.block_rows
    parts = []
    for start in track(range(0, distances.num_queries, rows), "searching"):
        block = distances.block(slice(start, start + rows))
        parts.append(block.topk(k, dim=1, largest=False).indices)
    return torch.cat(parts)


def _shares(rows: int) -> list[slice]:
    """The rows in as many parts as torch has threads."""
    step = -(-rows // torch.get_num_threads()) or 1
    return [slice(start, start + step) for start in range(0, rows, step)]

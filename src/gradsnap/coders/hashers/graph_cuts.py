"""Sampled pairs of rows, and the bit that suits them best, found by graph cuts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

Ints = NDArray[np.int64]
LARGEST_BLOCK = 1000
"""Rows that one cut decides at once."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs (p,) of n rows, each once, with whether they should be alike."""

    left: Ints
    right: Ints
    similar: NDArray[np.bool_]
    blocks: tuple[Ints, ...]
    """Rows that are all alike to each other; every row is in one block."""

    @classmethod
    def draw(
        cls, labels: NDArray[np.bool_], per_row: int, generator: np.random.Generator
    ) -> "Pairs":
        """For each row so many alike and so many unlike, of multi-hot labels (n, L)."""
        every = np.arange(len(labels))
        alike = _draw_pairs(labels, every, per_row, True, generator)
        unlike = _draw_pairs(labels, every, per_row, False, generator)
        both = np.concatenate([alike, unlike])
        similar = np.arange(len(both)) < len(alike)
        both.sort(axis=1)
        _, first = np.unique(both, axis=0, return_index=True)
        first.sort()
        both, similar = both[first], similar[first]
        blocks = _blocks(labels, generator)
        return cls(both[:, 0], both[:, 1], similar, blocks)


def _draw_pairs(
    labels: NDArray[np.bool_],
    rows: Ints,
    per_row: int,
    alike: bool,
    generator: np.random.Generator,
) -> Ints:
    """Pairs (p, 2) of rows that share a label, or that share none, by rejection."""
    found = []
    for _ in range(per_row):
        others = generator.integers(0, len(labels), len(rows))
        if alike:
            others = _sharing(labels, rows, generator)
        shares = (labels[rows] & labels[others]).any(axis=1)
        kept = (shares == alike) & (rows != others)
        found.append(np.stack([rows[kept], others[kept]], axis=1))
    return np.concatenate(found).astype(np.int64)


def _sharing(
    labels: NDArray[np.bool_], rows: Ints, generator: np.random.Generator
) -> Ints:
    """For each row another that has one of its labels, drawn at random."""
    noise = generator.random(labels.shape)
    chosen = np.where(labels, noise, -1).argmax(axis=1)  # one label a row
    others = rows.copy()
    for label in range(labels.shape[1]):
        members = np.flatnonzero(labels[:, label])
        mine = np.flatnonzero((chosen == label) & labels[:, label])
        if len(members) and len(mine):
            others[mine] = members[generator.integers(0, len(members), len(mine))]
    return others


def _blocks(
    labels: NDArray[np.bool_], generator: np.random.Generator
) -> tuple[Ints, ...]:
    """Rows by a label they have in common, the rarest first; then those without."""
    left = np.ones(len(labels), dtype=bool)
    blocks: list[Ints] = []
    for label in np.argsort(labels.sum(axis=0), kind="stable"):
        members = np.flatnonzero(left & labels[:, label])
        left[members] = False
        members = generator.permutation(members)
        count = -(-len(members) // LARGEST_BLOCK)
        blocks += np.array_split(members, count) if count else []
    blocks += [np.array([row]) for row in np.flatnonzero(left)]
    return tuple(blocks)


def best_bit(pairs: Pairs, weights: Ints, signs: Ints, sweeps: int = 2) -> Ints:
    """A bit (n,) of −1 and 1 with low Σ weight · zᵢ zⱼ, block by block.

    Within a block no weight is positive, so that the block's best bits, given all
    others, are a minimum cut and are found exactly.

    Args:
        pairs: p pairs of n rows.
        weights: whole numbers (p,): negative where the two had better be equal.
        signs: −1 and 1 to start from, (n,).
        sweeps: passes over the blocks.
    """
    size = len(signs)
    table = csr_matrix((weights, (pairs.left, pairs.right)), shape=(size, size))
    table = (table + table.T).tocsr()
    signs = signs.astype(np.int64)
    for _ in range(sweeps):
        before = signs.copy()
        for block in pairs.blocks:
            rows = table[block]
            inner = rows[:, block]
            pull = rows @ signs - inner @ signs[block]
            signs[block] = _cut(inner, np.asarray(pull))
        if np.array_equal(before, signs):
            break
    return signs


def _cut(inner: csr_matrix, pull: Ints) -> Ints:
    """Signs (b,) of least ⟨z, A z⟩ / 2 + ⟨pull, z⟩ with no positive entry in A (b, b).

    Two rows that differ cost 2|a|; a row on the source's side is −1.
    """
    count = len(pull)
    inner = inner.tocoo()
    to_source = np.flatnonzero(pull > 0)
    to_sink = np.flatnonzero(pull < 0)
    source, sink = count, count + 1
    ends = (
        np.concatenate([inner.row, np.full(len(to_source), source), to_sink]),
        np.concatenate([inner.col, to_source, np.full(len(to_sink), sink)]),
    )
    capacity = np.concatenate([-inner.data, pull[to_source], -pull[to_sink]])
    shape = (count + 2, count + 2)
    graph = csr_matrix((np.maximum(capacity, 0).astype(np.int32), ends), shape=shape)
    rest = graph - maximum_flow(graph, source, sink).flow
    rest.eliminate_zeros()
    reached = breadth_first_order(rest, source, return_predecessors=False)
    signs = np.ones(count + 2, dtype=np.int64)
    signs[reached] = -1
    return signs[:count]

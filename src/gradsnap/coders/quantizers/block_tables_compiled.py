"""Tables of a handful of queries, compiled: see ``block_tables``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.compiled import compiled

Array = NDArray[Any]


@compiled
def block_tables(blocks: Array, codebooks: Array, entries: Array) -> None:
    """Fills entries (q, M, K) for blocks (M, q, width) and codebooks (M, K, width)."""
    for q in range(entries.shape[0]):
        for m in range(entries.shape[1]):
            row = blocks[m, q]
            for k in range(entries.shape[2]):
                word = codebooks[m, k]
                total = row[0] - row[0]
                for j in range(row.shape[0]):
                    apart = row[j] - word[j]
                    total += apart * apart
                entries[q, m, k] = total

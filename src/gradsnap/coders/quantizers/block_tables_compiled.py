"""Tables of a handful of queries, compiled: see ``block_tables``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.compiled import compiled

Array = NDArray[Any]


@compiled
def block_tables(rows: Array, codebooks: Array, entries: Array) -> None:
    """Fills entries (q, M, K) for rows (q, M · width) and codebooks (M, K, width)."""
    width = codebooks.shape[2]
    for q in range(entries.shape[0]):
        for m in range(entries.shape[1]):
            row = rows[q, m * width : (m + 1) * width]
            for k in range(entries.shape[2]):
                word = codebooks[m, k]
                total = row[0] - row[0]
                for j in range(width):
                    apart = row[j] - word[j]
                    total += apart * apart
                entries[q, m, k] = total

"""Tables of a handful of queries, compiled: see ``block_tables``."""

from typing import Any

from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]


@compiled_in_place
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


@compiled_in_place
def turned_tables(rows: Array, turned: Array, entries: Array) -> None:
    """The same, to the bit, for codebooks turned around, (M, width, K).

    A register then holds numbers of many codewords: a fifth of the time.
    """
    width = turned.shape[1]
    for q in range(entries.shape[0]):
        for m in range(entries.shape[1]):
            row = rows[q, m * width : (m + 1) * width]
            entries[q, m] = 0
            _add_apart(row, turned[m], entries[q, m])


@compiled_in_place
def _add_apart(row: Array, words: Array, sums: Array) -> None:
    """Adds ``(row[j] - words[j, k])²`` to sums (K,), in the order of j."""
    whole = row.shape[0] // 4 * 4
    for j in range(0, whole, 4):
        a, b, c, d = row[j], row[j + 1], row[j + 2], row[j + 3]
        first, second = words[j], words[j + 1]
        third, fourth = words[j + 2], words[j + 3]
        for k in range(sums.shape[0]):
            w, x, y, z = a - first[k], b - second[k], c - third[k], d - fourth[k]
            sums[k] = (((sums[k] + w * w) + x * x) + y * y) + z * z
    for j in range(whole, row.shape[0]):
        for k in range(sums.shape[0]):
            apart = row[j] - words[j, k]
            sums[k] += apart * apart

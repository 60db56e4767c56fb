"""Look-up tables of queries, and the one sum over them that is a distance."""

from typing import NamedTuple

from torch import Tensor

ITEM_BLOCK = 1 << 16
"""Codes whose entries are gathered at once."""


class Tables(NamedTuple):
    """What asymmetric distance computation (ADC) adds up for each query."""

    entries: Tensor
    """One number per codeword, (q, num_codebooks, codebook_size)."""
    offsets: Tensor
    """One number per query, (q,), so that the sum is a distance."""


def sums_of_all(entries: Tensor, codes: Tensor) -> Tensor:
    """Sums (q, n) of the entries (q, M, K) of every code (n, M), for every query.

    In the order of the codebooks, as the compiled scans add: both agree to the bit.
    """
    out = entries.new_zeros(len(entries), len(codes))
    return add_entries(entries, codes.T, out)


def add_entries(entries: Tensor, columns: Tensor, out: Tensor) -> Tensor:
    """Adds to out (q, n) the entries (q, M, K) that codes name, column by column.

    Args:
        entries: of q queries.
        columns: the codes by codebook, (M, n), any integer type.
        out: changed in place, and returned.
    """
    for start in range(0, columns.shape[1], ITEM_BLOCK):
        part = slice(start, start + ITEM_BLOCK)
        for m, words in enumerate(columns[:, part].long()):
            out[:, part] += entries[:, m].index_select(1, words)
    return out


def sums_of_own(entries: Tensor, codes: Tensor) -> Tensor:
    """Sums (q, r) of the entries (q, M, K) of each query's own codes (q, r, M).

    One gather, with the rows side by side, takes less time than one a codebook (two
    thirds of it for eight). Its ``sum`` would be faster still, but from eight codebooks
    on it adds in another order than the compiled scans.
    """
    chosen = entries.gather(2, codes.transpose(1, 2))  # (q, M, r)
    total = chosen[:, 0]
    for m in range(1, codes.shape[2]):
        total = total + chosen[:, m]
    return total

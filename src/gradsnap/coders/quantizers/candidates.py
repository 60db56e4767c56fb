"""The k smallest sums of one table entry per codebook, exactly.

Where distances add up over codebooks (the product family), the k nearest codewords
among ``codebook_size ** num_codebooks`` are the k smallest such sums. On a CPU with
numba a compiled kernel finds them; everywhere else sorted lists are
folded two by two in plain torch.
"""

import functools
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from gradsnap.coders.quantizers.quantizer import Candidates
from gradsnap.coders.quantizers.smallest import smallest
from gradsnap.coders.tables import sums_of_own
from gradsnap.compiled import kernels, spread

SHORT = 64
"""Length of the short lists tried first; a certificate tells whether it sufficed."""

FEW_SUMS = 1024
"""As many sums as this are listed, all of them."""

ROWS_PER_THREAD = 64

Fold = tuple[Tensor, Callable[[Tensor], list[Tensor]]]
"""Ascending sums (n, k), and what finds the codewords behind some of them: from their
ranks (n, r), a tensor (n, r) for each folded codebook."""


def smallest_sums(tables: Tensor, k: int) -> Candidates:
    """The k smallest sums of one entry per codebook, ascending.

    Args:
        tables: entries (n, M, K).
        k: how many; at most ``K ** M``.

    Returns:
        Sums (n, k) and codes (n, k, M), int64. The sums are what adding the entries
        in the order of the codebooks gives.
    """
    search = compiled_sums if _can_compile(tables) else folded_sums
    return search(tables, k)


def _kernels() -> ModuleType | None:
    return kernels("gradsnap.coders.quantizers.candidates_compiled")


def _can_compile(tables: Tensor) -> bool:
    plain = tables.device.type == "cpu" and tables.dtype in (
        torch.float32,
        torch.float64,
    )
    return plain and _kernels() is not None


def _kernel(tables: Tensor) -> Callable[..., None]:
    """The kernel for entries (n, M, K): one that lists all sums, if they are few."""
    found: Callable[..., None]
    if tables.shape[2] ** tables.shape[1] <= FEW_SUMS:
        every = kernels("gradsnap.coders.quantizers.all_sums_compiled")
        found = every.smallest_of_all  # type: ignore[union-attr]
    else:
        found = _kernels().smallest_sums  # type: ignore[union-attr]
    return found


def compiled_sums(tables: Tensor, k: int) -> Candidates:
    """``smallest_sums`` by the compiled kernel, rows spread over torch's threads."""
    rows, num_codebooks, _ = tables.shape
    distances = tables.new_empty(rows, k)
    codes = torch.empty(rows, k, num_codebooks, dtype=torch.int64)
    run = _kernel(tables)
    parts = max(1, min(torch.get_num_threads(), rows // ROWS_PER_THREAD))
    jobs = [
        (part.numpy(), k, distance.numpy(), code.numpy())
        for part, distance, code in zip(
            tables.contiguous().tensor_split(parts),
            distances.tensor_split(parts),
            codes.tensor_split(parts),
            strict=True,
        )
    ]
    spread(lambda job: run(*job), jobs)
    return Candidates(distances, codes)


def folded_sums(tables: Tensor, k: int) -> Candidates:
    """``smallest_sums`` in plain torch, on any device.

    Lists of ``SHORT`` codewords are folded first. A row is certified when its k-th
    sum does not exceed the sum of minima plus the smallest gap to a codeword left
    out; the others are folded again with lists of k.
    """
    longest = min(k, tables.shape[2])
    length = min(SHORT, longest)
    if length ** tables.shape[1] < k:
        length = longest
    values, words = smallest(tables, min(length + 1, tables.shape[2]))
    found = _fold_all(values[..., :length], words[..., :length], k)
    if length < longest:
        least = values[..., 0]  # (n, M)
        left_out = (values[..., length] - least).amin(dim=1) + least.sum(dim=1)
        failed = (found[0].amax(dim=1) > left_out).nonzero()[:, 0]
        if len(failed):
            again = _fold_all(*smallest(tables[failed], longest), k)
            found[0][failed], found[1][failed] = again
    return Candidates(*_sort(tables, found[1]))


def _fold_all(values: Tensor, words: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Folds sorted lists (n, M, length) two by two until one is left, unsorted.

    Returns:
        Sums (n, k), and the codes behind them, (n, k, M).
    """
    folds = [_leaf(values[:, m], words[:, m]) for m in range(values.shape[1])]
    while len(folds) > 1:
        pairs = zip(folds[::2], folds[1::2], strict=False)
        odd = folds[-1:] if len(folds) % 2 else []
        last = len(folds) == 2
        folds = [_fold(left, right, k, last) for left, right in pairs] + odd
    sums, codewords = folds[0]
    ranks = torch.arange(sums.shape[1], device=sums.device)
    codes = words.new_empty(*sums.shape, words.shape[1])
    for m, of_codebook in enumerate(codewords(ranks.expand_as(sums))):
        codes[..., m] = of_codebook
    return sums, codes


def _leaf(values: Tensor, words: Tensor) -> Fold:
    """The list of one codebook, sorted: entries and codewords, (n, length) each."""
    return values, lambda ranks: [words.gather(1, ranks)]


def _fold(left: Fold, right: Fold, k: int, last: bool) -> Fold:
    """The k smallest sums of two sorted lists, sorted unless it is the last fold.

    A pair at ranks (i, j), from one, has i·j - 1 pairs at or below it, so only
    pairs with i·j ≤ k can be among the k smallest: 780 of them for k = 150.
    """
    i, j = _rank_pairs(left[0].shape[1], right[0].shape[1], k)
    i, j = i.to(left[0].device), j.to(left[0].device)
    sums = left[0].index_select(1, i) + right[0].index_select(1, j)  # (n, pairs)
    best, places = smallest(sums, min(k, sums.shape[1]), ascending=not last)

    def codewords(ranks: Tensor) -> list[Tensor]:
        at = places.gather(1, ranks).flatten()
        parts = (i.index_select(0, at), j.index_select(0, at))
        return [
            codeword
            for side, part in zip((left, right), parts, strict=True)
            for codeword in side[1](part.view_as(ranks))
        ]

    return best, codewords


def _gather_codes(codes: Tensor, places: Tensor) -> Tensor:
    """The codes (n, length, m) at places (n, k): (n, k, m); whole codes at once."""
    rows, length, m = codes.shape
    starts = torch.arange(0, rows * length, length, device=codes.device)[:, None]
    at = (places + starts).flatten()
    return codes.reshape(-1, m).index_select(0, at).view(*places.shape, m)


@functools.lru_cache(maxsize=64)
def _rank_pairs(left: int, right: int, k: int) -> tuple[Tensor, Tensor]:
    ranks = torch.arange(1, left + 1)[:, None] * torch.arange(1, right + 1)
    i, j = (ranks <= k).nonzero(as_tuple=True)
    return i, j


def _sort(tables: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of the entries of codes (n, k, M), ascending, and the codes."""
    total = sums_of_own(tables, codes)
    total, order = smallest(total, total.shape[1])  # rounding may have swapped some
    return total, _gather_codes(codes, order)

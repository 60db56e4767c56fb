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
from gradsnap.coders.tables import sums_of_own
from gradsnap.compiled import kernels, spread

SHORT = 48
"""Length of the short lists tried first; a certificate tells whether it sufficed."""

FEW_SUMS = 1024
"""As many sums as this are listed, all of them."""

ROWS_PER_THREAD = 64

Fold = tuple[Tensor, Tensor]
"""Ascending sums (n, k) and the codes behind them (n, k, folded codebooks)."""


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
    lists = tables.topk(min(length + 1, tables.shape[2]), dim=2, largest=False)
    found = _fold_all(lists.values[..., :length], lists.indices[..., :length], k)
    if length < longest:
        least = lists.values[..., 0]  # (n, M)
        left_out = (lists.values[..., length] - least).amin(dim=1) + least.sum(dim=1)
        failed = (found[0].amax(dim=1) > left_out).nonzero()[:, 0]
        if len(failed):
            full = tables[failed].topk(longest, dim=2, largest=False)
            again = _fold_all(full.values, full.indices, k)
            found[0][failed], found[1][failed] = again
    return Candidates(*_sort(tables, found[1]))


def _fold_all(values: Tensor, words: Tensor, k: int) -> Fold:
    """Folds sorted lists (n, M, length) two by two until one is left, unsorted."""
    folds = [
        (values[:, m], words[:, m, :, None]) for m in range(values.shape[1])
    ]  # each (n, length) and (n, length, 1)
    while len(folds) > 1:
        pairs = zip(folds[::2], folds[1::2], strict=False)
        odd = folds[-1:] if len(folds) % 2 else []
        last = len(folds) == 2
        folds = [_fold(left, right, k, last) for left, right in pairs] + odd
    return folds[0]


def _fold(left: Fold, right: Fold, k: int, last: bool) -> Fold:
    """The k smallest sums of two sorted lists, sorted unless it is the last fold.

    A pair at ranks (i, j), from one, has i·j - 1 pairs at or below it, so only
    pairs with i·j ≤ k can be among the k smallest: 780 of them for k = 150.
    """
    i, j = _rank_pairs(left[0].shape[1], right[0].shape[1], k)
    i, j = i.to(left[0].device), j.to(left[0].device)
    sums = left[0].index_select(1, i) + right[0].index_select(1, j)  # (n, pairs)
    kept = min(k, sums.shape[1])
    best = sums.topk(kept, dim=1, largest=False, sorted=not last)
    codes = [
        _gather_codes(
            side[1], at.index_select(0, best.indices.flatten()).view_as(best.indices)
        )
        for side, at in ((left, i), (right, j))
    ]
    return best.values, torch.cat(codes, dim=2)


def _gather_codes(codes: Tensor, places: Tensor) -> Tensor:
    """The codes (n, length, m) at places (n, k): (n, k, m)."""
    return codes.gather(1, places[..., None].expand(-1, -1, codes.shape[2]))


@functools.lru_cache(maxsize=64)
def _rank_pairs(left: int, right: int, k: int) -> tuple[Tensor, Tensor]:
    ranks = torch.arange(1, left + 1)[:, None] * torch.arange(1, right + 1)
    i, j = (ranks <= k).nonzero(as_tuple=True)
    return i, j


def _sort(tables: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of the entries of codes (n, k, M), ascending, and the codes."""
    total = sums_of_own(tables, codes)
    order = total.argsort(dim=1, stable=True)  # rounding may have swapped neighbours
    return total.gather(1, order), _gather_codes(codes, order)

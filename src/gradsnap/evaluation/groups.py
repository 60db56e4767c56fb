"""Rankings as groups of tied items: all that any metric needs to know of them."""

from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsnap.compiled import kernels
from gradsnap.errors import InputError

LONG_ROW = 8192
"""Items from which on a row is sorted digit by digit: NumPy's sort is as fast at best,
and a third of that on processors whose AVX-512 stores few numbers slowly."""
ROW_STRIDE = 1 << 40
"""Keeps rows apart where positions of several rows lie in one sorted list."""


def kernel_for(tensor: Tensor) -> ModuleType | None:
    """The compiled kernels where they can work on the tensor, or None."""
    if tensor.device.type != "cpu":
        return None
    return kernels("gradsnap.evaluation.ranking_compiled")


class Groups(NamedTuple):
    """The tie groups that hold relevant items, of several queries, nearest first.

    Items at one distance form a group; those without a relevant item only move the
    others down, and are left out. All fields are (g,), sorted by row, then by start.
    """

    rows: Tensor
    """Which query, 0 to ``queries − 1``."""
    starts: Tensor
    """Items nearer than the group."""
    sizes: Tensor
    """Items in the group."""
    hits: Tensor
    """Relevant items in the group, at least one."""
    before: Tensor
    """Relevant items nearer than the group."""
    gains: Tensor
    """Sum of ``2^grade − 1`` in the group, float64."""
    queries: int
    """How many queries there are."""


def groups_of_distances(
    distances: Tensor, grades: Tensor, cut: int, top_grade: int = 1
) -> Groups:
    """Groups of equal distance, complete up to the one that holds rank ``cut``.

    Only sorts: the grade travels in the low bits of an integer key whose high bits are
    those of the distance, so that neither an order nor a gather is needed.

    Args:
        distances: finite and not negative, float32 (q, n).
        grades: 0 for not relevant, up to ``top_grade``; bool or integers (q, n).
        cut: R, 1 to n.
        top_grade: the largest grade that can occur.
    """
    shift = top_grade.bit_length()
    keys = _keys(distances, grades, shift)
    head = _nearest_keys(keys, cut, shift) if cut < keys.shape[1] else _sort_rows(keys)
    return _groups_of_sorted(head, shift)


def groups_of_counts(counts: Tensor) -> Groups:
    """Groups from how many items of each grade lie at each distance.

    Args:
        counts: int64 (q, distances, grades), distances ascending, grades from 0.
    """
    sizes, hits = counts.sum(dim=2), counts[..., 1:].sum(dim=2)
    rows, levels = hits.nonzero(as_tuple=True)
    grades = torch.arange(counts.shape[2], device=counts.device)
    gains = (counts * (2**grades - 1)).sum(dim=2).double()
    return Groups(
        rows=rows,
        starts=(sizes.cumsum(dim=1) - sizes)[rows, levels],
        sizes=sizes[rows, levels],
        hits=hits[rows, levels],
        before=(hits.cumsum(dim=1) - hits)[rows, levels],
        gains=gains[rows, levels],
        queries=len(counts),
    )


def groups_of_ranked(relevant: Tensor) -> Groups:
    """Groups of one item each, of results in ranked order: relevant or not, (q, k)."""
    rows, ranks = relevant.nonzero(as_tuple=True)
    one = torch.ones_like(rows)
    place = torch.arange(len(rows), device=rows.device)
    return Groups(
        rows=rows,
        starts=ranks.contiguous(),  # a kernel is compiled for each layout it meets
        sizes=one,
        hits=one,
        before=place - _row_offsets(rows, len(relevant))[rows],
        gains=one.double(),
        queries=len(relevant),
    )


def _keys(distances: Tensor, grades: Tensor, shift: int) -> Tensor:
    """Integers that sort by distance, then by falling grade, (q, n)."""
    distances = distances.float()
    if distances.numel():
        low, high = distances.aminmax()
        if not (low >= 0 and high.isfinite()):  # NaN is neither
            raise InputError(
                f"distances must be finite and not negative, got {float(low):g} to "
                f"{float(high):g}"
            )
        if low == 0:
            distances = distances + 0.0  # −0 has other bits than 0
    bits = distances.view(torch.int32)
    if shift > 1:
        rank = grades.long().bitwise_xor_((1 << shift) - 1)
        return rank.add_(bits, alpha=1 << shift)
    kernel = kernel_for(bits)
    if kernel is not None:
        keys = torch.empty_like(bits)
        kernel.binary_keys(bits.numpy(), grades.numpy(), keys.numpy())
        return keys
    # A float that is not negative leaves one bit free; −2³¹ makes its order signed.
    rank = torch.where(grades.bool(), -(2**31), 1 - 2**31).int()
    return rank.add_(bits, alpha=2)


def _numpy_sorts(keys: Tensor) -> bool:
    """NumPy sorts numbers many times as fast as torch, but only on the CPU."""
    return keys.device.type == "cpu"


def _sort_rows(keys: Tensor) -> Tensor:
    """Rows (q, n) in ascending order."""
    kernel = kernel_for(keys) if keys.shape[1] >= LONG_ROW else None
    if kernel is not None and keys.dtype == torch.int32:
        found = keys.numpy().copy()
        kernel.sort_rows(found, np.empty(keys.shape[1], np.uint32))
        return torch.from_numpy(found)
    if _numpy_sorts(keys):
        return torch.from_numpy(np.sort(keys.numpy(), axis=1))
    return keys.sort(dim=1).values


def _smallest(keys: Tensor, count: int) -> Tensor:
    """The ``count`` smallest of each row, in ascending order, (q, count)."""
    if _numpy_sorts(keys):
        parted = np.partition(keys.numpy(), count - 1, axis=1)[:, :count]
        return torch.from_numpy(np.sort(parted, axis=1))
    return keys.topk(count, dim=1, largest=False, sorted=True).values


def _nearest_keys(keys: Tensor, cut: int, shift: int) -> Tensor:
    """The nearest ``cut`` of each row and all that tie with the last, (q, m)."""
    head = _smallest(keys, cut)
    last = head[:, -1:] | ((1 << shift) - 1)  # the largest key at that distance
    count = int((keys <= last).sum(dim=1).max())
    return head if count == cut else _smallest(keys, count)


def _groups_of_sorted(keys: Tensor, shift: int) -> Groups:
    """Groups of ascending keys (q, m): hits lie first among their ties."""
    kernel = kernel_for(keys)
    if kernel is not None:
        found, gains = kernel.groups_of_rows(keys.numpy(), shift)
        rows, starts, sizes, hits, before = torch.from_numpy(found)
        sums = torch.from_numpy(gains)
        return Groups(rows, starts, sizes, hits, before, sums, len(keys))
    return _groups_in_torch(keys, shift)


def _groups_in_torch(keys: Tensor, shift: int) -> Groups:
    mask = (1 << shift) - 1
    flat = ((keys & mask) != mask).flatten().nonzero().squeeze(1)  # (h,), every hit
    rows = flat.div(keys.shape[1], rounding_mode="floor")
    found = keys.flatten()[flat]
    level, gains = found >> shift, 2.0 ** (mask - (found & mask)) - 1
    first = torch.ones_like(flat, dtype=torch.bool)
    first[1:] = (level[1:] != level[:-1]) | (rows[1:] != rows[:-1])
    heads = first.nonzero().squeeze(1)  # (g,), the first hit of each group
    own = torch.arange(len(flat), device=flat.device)
    earlier = own[heads] - _row_offsets(rows, len(keys))[rows[heads]]
    hits = torch.diff(heads, append=heads.new_full((1,), len(flat)))
    sums = torch.zeros(len(heads), dtype=torch.float64, device=flat.device)
    sums.index_add_(0, first.cumsum(0) - 1, gains.double())
    starts = flat[heads] - rows[heads] * keys.shape[1]
    sizes = _sizes(keys, shift, rows[heads], starts, hits)
    return Groups(rows[heads], starts, sizes, hits, earlier, sums, len(keys))


def _row_offsets(rows: Tensor, queries: int) -> Tensor:
    """How many entries belong to earlier rows, (queries,), for sorted rows (h,)."""
    counts = rows.bincount(minlength=queries)
    return counts.cumsum(0) - counts


def _sizes(
    keys: Tensor, shift: int, rows: Tensor, starts: Tensor, hits: Tensor
) -> Tensor:
    """Items in each group: its hits, and what ties with them without being one."""
    width, ends = keys.shape[1], starts + hits
    level = keys[rows, starts] >> shift
    following = keys[rows, ends.clamp_max(width - 1)] >> shift
    tied = ((ends < width) & (following == level)).nonzero().squeeze(1)
    if len(tied):
        every = torch.arange(len(keys), device=keys.device)[:, None] * ROW_STRIDE
        lined_up = ((keys.long() >> shift) + every).flatten()  # ascending
        wanted = level[tied].long() + rows[tied] * ROW_STRIDE
        past = torch.searchsorted(lined_up, wanted, right=True)
        ends[tied] = past - rows[tied] * width
    return ends - starts

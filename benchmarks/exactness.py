"""Exactness of the candidates, against a best-first search that knows no shortcut."""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks import fits
from benchmarks.candidates import (
    BATCH,
    NEIGHBORS,
    has_kernel,
    multi_index,
    plain_torch,
)
from benchmarks.report import Bar, Row
from benchmarks.vectors import Setting, Vectors, gaussian, headed, on_each
from gradsnap.coders.quantizers import ProductQuantizer

CODEBOOKS = (3, 4, 6, 8, 16)
TOLERANCE = 1e-6
"""Of ‖x‖² plus the distance: what float32 tables can be off by."""

BAR = Bar("≥", 1.0)
ID_BITS = 64


def run(setting: Setting) -> Iterator[Row]:
    """Share of rows whose candidates are the nearest, at 24 to 128 bits."""
    yield from on_each(setting, (headed, gaussian), _measured)


def _measured(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    for num_codebooks in CODEBOOKS:
        quantizer = fits.ours(ProductQuantizer, vectors, num_codebooks, setting.words)
        judge = Judge(quantizer, vectors.held_out[:BATCH])
        yield from _shares(judge, vectors.name)


def _shares(judge: "Judge", name: str) -> Iterator[Row]:
    quantizer, x = judge.quantizer, judge.x
    peer_distances, ids = multi_index(quantizer).search(x.numpy(), NEIGHBORS)
    theirs = judge.verdict(torch.from_numpy(peer_distances), unpacked(ids, quantizer))
    default = "compiled kernel" if has_kernel() else "default"
    found = {
        default: quantizer.candidates(x, NEIGHBORS),
        "plain torch": plain_torch(quantizer, x),
    }
    for path, candidates in found.items():
        what = f"{quantizer.bits} bits, {name}: {path}"
        yield _row(what, judge.verdict(*candidates), theirs)


def _row(what: str, ours: "Verdict", theirs: "Verdict") -> Row:
    return Row(
        what,
        ours.distances,
        theirs.distances,
        bar=BAR,
        fair=ours.codes == 1,
        note=f"codes right: {ours.codes:.3g} / {theirs.codes:.3g}",
    )


class Verdict(NamedTuple):
    """Shares of rows whose distances, and whose codes, are the exact ones."""

    distances: float
    codes: float


class Judge:
    """Knows the exact distances (n, k) of a batch, and what counts as equal."""

    def __init__(self, quantizer: ProductQuantizer, x: Tensor) -> None:
        self.quantizer = quantizer
        self.x = x
        self.exact = best_first(quantizer, x, NEIGHBORS)
        norms = x.double().square().sum(dim=1, keepdim=True)
        self.room = TOLERANCE * (norms + self.exact)

    def verdict(self, distances: Tensor, codes: Tensor) -> Verdict:
        """Of distances (n, k) and codes (n, k, M)."""
        lie_there = self._equal(true_distances(self.quantizer, self.x, codes))
        right = lie_there & distinct(codes)
        return Verdict(_share(self._equal(distances)), _share(right))

    def _equal(self, distances: Tensor) -> Tensor:
        """Rows whose distances (n, k) are all the exact ones, (n,)."""
        return ((distances.double() - self.exact).abs() <= self.room).all(dim=1)


def _share(rows: Tensor) -> float:
    return float(rows.double().mean())


def best_first(quantizer: ProductQuantizer, x: Tensor, k: int) -> Tensor:
    """The k smallest squared distances (n, k), in double precision."""
    entries = exact_tables(quantizer, x).sort(dim=2).values.numpy()
    return torch.tensor([_smallest_sums(lists, k) for lists in entries]).double()


def _smallest_sums(lists: np.ndarray, k: int) -> list[float]:
    """The k smallest sums of one entry per ascending list; lists (M, K).

    A heap of rank vectors: whatever is taken out, its successors, one rank up in one
    list, are put in. Nothing smaller can be left outside.
    """
    first = (0,) * len(lists)
    heap = [(float(lists[:, 0].sum()), first)]
    seen = {first}
    found: list[float] = []
    while len(found) < k:
        total, ranks = heapq.heappop(heap)
        found.append(total)
        for m, rank in enumerate(ranks):
            after = (*ranks[:m], rank + 1, *ranks[m + 1 :])
            if rank + 1 < lists.shape[1] and after not in seen:
                seen.add(after)
                step = lists[m, rank + 1] - lists[m, rank]
                heapq.heappush(heap, (total + float(step), after))
    return found


def exact_tables(quantizer: ProductQuantizer, x: Tensor) -> Tensor:
    """Squared distances (n, M, K) of blocks to codewords, from differences."""
    blocks = x.double().view(len(x), quantizer.num_codebooks, 1, -1)
    return (blocks - quantizer.codebooks.double()).square().sum(dim=3)


def true_distances(quantizer: ProductQuantizer, x: Tensor, codes: Tensor) -> Tensor:
    """Squared distances (n, k) of x (n, dim) to what codes (n, k, M) decode to."""
    chosen = exact_tables(quantizer, x).gather(2, codes.long().transpose(1, 2))
    return chosen.sum(dim=1).sort(dim=1).values


def distinct(codes: Tensor) -> Tensor:
    """Whether no code of codes (n, k, M) occurs twice in a row, (n,)."""
    return torch.tensor([len(row.unique(dim=0)) == codes.shape[1] for row in codes])


def unpacked(ids: np.ndarray, quantizer: ProductQuantizer) -> Tensor:
    """Codes (n, k, M) of FAISS's ids (n, k), the first codebook in the lowest bits."""
    bits = quantizer.codebook_size.bit_length() - 1
    shifts = np.arange(quantizer.num_codebooks, dtype=np.uint64) * np.uint64(bits)
    inside = np.minimum(shifts, np.uint64(ID_BITS - 1))
    codes = ids.astype(np.uint64)[..., None] >> inside
    codes = np.where(shifts < ID_BITS, codes, 0) & np.uint64(2**bits - 1)
    return torch.from_numpy(codes.astype(np.int64))

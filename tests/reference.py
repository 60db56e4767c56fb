"""Slow twins of the quantizers' routines: plain loops from the formulas, in numpy.

Everything is in double precision, one row at a time; ties go to the first index.
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def squared_distance(a: Array, b: Array) -> float:
    """Σᵢ (aᵢ − bᵢ)²."""
    return float(sum((float(p) - float(q)) ** 2 for p, q in zip(a, b, strict=True)))


def smallest_sums(table: Array, k: int) -> list[tuple[float, tuple[int, ...]]]:
    """The k smallest sums of one entry per codebook, of one row's table (M, K).

    Sums are added in the order of the codebooks, in the table's own precision.
    """
    found = []
    for code in itertools.product(range(table.shape[1]), repeat=table.shape[0]):
        total = table[0, code[0]]
        for m in range(1, len(code)):
            total = total + table[m, code[m]]
        found.append((float(total), code))
    return sorted(found)[:k]


def nearest(row: Array, words: Array) -> int:
    """Index of the word (K, d) nearest to the row (d,)."""
    distances = [squared_distance(row, word) for word in words]
    return distances.index(min(distances))


def assign(x: Array, centroids: Array) -> Array:
    """Nearest centroid of every row, of x (n, d) and centroids (K, d): (n,)."""
    return np.array([nearest(row, centroids) for row in x])


def accumulate(x: Array, assignment: Array, size: int) -> tuple[Array, Array]:
    """Counts (K,) and sums (K, d) of the rows x (n, d) given to each centroid."""
    counts, sums = np.zeros(size), np.zeros((size, x.shape[1]))
    for row, at in zip(x, assignment, strict=True):
        counts[at] += 1
        sums[at] += row
    return counts, sums


def follow(
    centroids: Array, counts: Array, x: Array, decay: float
) -> tuple[Array, Array]:
    """One step of sequential k-means: the weighted mean of all a codeword was given.

    Args:
        centroids: (K, d).
        counts: their weights (K,).
        x: the batch (n, d).
        decay: what is left of the earlier weights.

    Returns:
        The new centroids and weights, without any revival.
    """
    new_counts, sums = accumulate(x, assign(x, centroids), len(centroids))
    moved, weights = centroids.astype(float).copy(), counts.astype(float).copy()
    for word in range(len(centroids)):
        weights[word] = decay * counts[word] + new_counts[word]
        if new_counts[word] > 0:
            earlier = decay * counts[word] * centroids[word]
            moved[word] = (earlier + sums[word]) / weights[word]
    return moved, weights


def decode_blocks(code: Array, codebooks: Array, dim: int) -> Array:
    """A product code's vector (dim,): the codewords of the blocks end to end.

    The first ``dim mod M`` blocks are one dimension longer than the others.
    """
    num_codebooks = len(codebooks)
    vector: list[float] = []
    for m in range(num_codebooks):
        width = dim // num_codebooks + (1 if m < dim % num_codebooks else 0)
        vector.extend(codebooks[m, code[m], :width])
    return np.array(vector)


def decode_sum(code: Array, codebooks: Array) -> Array:
    """An additive code's vector (dim,): the sum of its codewords."""
    total = np.zeros(codebooks.shape[2])
    for m, word in enumerate(code):
        total = total + codebooks[m, word]
    return total


def cross_term(code: Array, codebooks: Array) -> float:
    """2 Σᵢ<ⱼ ⟨cᵢ, cⱼ⟩ of the codewords of one code."""
    total = 0.0
    for i in range(len(code)):
        for j in range(i):
            words = codebooks[i, code[i]], codebooks[j, code[j]]
            total += 2 * float(np.dot(*words))
    return total


def pair_tables(codebooks: Array) -> Array:
    """Entry [m, j·K + a, b] is 2⟨c_j(a), c_m(b)⟩, and zero for j = m."""
    num_codebooks, size, _ = codebooks.shape
    tables = np.zeros((num_codebooks, num_codebooks * size, size))
    for m, j in itertools.product(range(num_codebooks), repeat=2):
        for a, b in itertools.product(range(size), repeat=2):
            if j != m:
                tables[m, j * size + a, b] = 2 * codebooks[j, a] @ codebooks[m, b]
    return tables


def beam_search(
    row: Array, codebooks: Array, beam: int
) -> list[tuple[float, tuple[int, ...]]]:
    """The ``beam`` best codes, extending the best partial sums codebook by codebook.

    Each is judged by its true squared distance to the row (dim,).
    """
    partial: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for m in range(len(codebooks)):
        longer = [
            (*code, word) for _, code in partial for word in range(codebooks.shape[1])
        ]
        scored = [
            (
                squared_distance(row, decode_sum(np.array(code), codebooks[: m + 1])),
                code,
            )
            for code in longer
        ]
        partial = sorted(scored)[:beam]
    return partial


def icm_sweep(
    row: Array, code: Array, codebooks: Array, constant: float = 0, penalty: float = 0
) -> Array:
    """Each codeword in turn the best given the others, for one row (dim,).

    Best is the least ‖x − x̂‖² + penalty · (cross − constant)².
    """
    code = code.copy()
    for m in range(len(codebooks)):
        energies = []
        for word in range(codebooks.shape[1]):
            tried = code.copy()
            tried[m] = word
            slack = cross_term(tried, codebooks) - constant
            error = squared_distance(row, decode_sum(tried, codebooks))
            energies.append(error + penalty * slack**2)
        code[m] = energies.index(min(energies))
    return code


def least_squares(x: Array, codes: Array, size: int, ridge: float) -> Array:
    """Codebooks (M, K, dim) of least Σ ‖x − x̂‖² + ridge Σ ‖c‖², by numpy's lstsq."""
    rows, num_codebooks = codes.shape
    used = np.zeros((rows, num_codebooks * size))
    for i in range(rows):
        for m in range(num_codebooks):
            used[i, m * size + codes[i, m]] = 1
    pulled = np.sqrt(ridge) * np.eye(num_codebooks * size)
    left = np.vstack([used, pulled])
    right = np.vstack([x, np.zeros((num_codebooks * size, x.shape[1]))])
    solved = np.linalg.lstsq(left, right, rcond=None)[0]
    return np.asarray(solved).reshape(num_codebooks, size, -1)

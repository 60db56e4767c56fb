"""Means that are trusted as far as their rows allow: fewer rows, less trust.

A codeword is the mean of some tens of rows. In directions where codewords differ less
than such means differ by chance, what a mean says of its own rows is mostly chance too:
it fits them, and misses rows that were not there. There it is drawn to the mean of all
(empirical Bayes; James & Stein 1961).
"""

import torch
from torch import Tensor

from gradsnap.coders.quantizers.codeword_tables import residual_of_others
from gradsnap.coders.quantizers.kmeans import accumulate


def shrink(x: Tensor, codes: Tensor, codebooks: Tensor, sweeps: int) -> Tensor:
    """Codebooks that are trusted as far as the rows allow, found in place.

    One codebook after the other becomes the shrunk means of what the others leave of x.

    Args:
        x: (n, dim).
        codes: (n, M), int64; fixed.
        codebooks: (M, K, dim), changed.
        sweeps: over all codebooks, one or more; each draws them further.

    Returns:
        How many rows each codeword has, (M, K).
    """
    counts = codebooks.new_empty(codebooks.shape[:2])
    for step in range(sweeps * len(codebooks)):
        m = step % len(codebooks)
        target = residual_of_others(x, codes, codebooks, m)
        codebooks[m], counts[m] = shrunk_means(target, codes[:, m], codebooks[m])
    return counts


def shrunk_means(x: Tensor, assignment: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
    """Means of the rows given to each codeword, drawn to the mean of all.

    In each principal direction of x, with s² the variance of rows around their means
    and t² that of the true means around their centre, a mean of n rows keeps the share
    ``t² / (t² + s²/n)`` of its distance to the centre.

    Args:
        x: (n, dim).
        assignment: which codeword each row is given to, (n,), int64.
        words: (K, dim); those that are given no row stay.

    Returns:
        Codewords (K, dim), and how many rows each has, (K,).
    """
    counts, sums = accumulate(x[None], assignment[None], len(words))
    centre = x.mean(dim=0)
    directions = principal_directions(x - centre)
    used = counts[0].clamp_min(1)[:, None]
    means = (sums[0] / used - centre) @ directions  # (K, dim)
    within, between = _variances(
        (x - centre) @ directions, assignment, means, counts[0]
    )
    kept = between / (between + within / used).clamp_min(torch.finfo(x.dtype).tiny)
    shrunk = (means * kept) @ directions.T + centre
    return shrunk.where(counts[0][:, None] > 0, words), counts[0]


def _variances(
    x: Tensor, assignment: Tensor, means: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """Variance of centred rows x (n, dim) around their means, and of true means.

    The means (K, dim) vary by their rows' chance, too: that much is taken off.
    """
    used = (counts > 0).sum()
    within = (x - means[assignment]).square().sum(dim=0) / (len(x) - used).clamp_min(1)
    spread = (counts[:, None] * means.square()).sum(dim=0) / len(x)
    return within, (spread - within * used / len(x)).clamp_min(0)


def principal_directions(centred: Tensor) -> Tensor:
    """Principal directions of centred rows (n, dim), least first: (dim, dim)."""
    directions: Tensor = torch.linalg.eigh(centred.T @ centred).eigenvectors
    return directions

"""k-means on several subspaces at once, and the parts streaming updates reuse."""

import torch
from torch import Tensor
from torch.nn import functional

from gradsnap.coders.quantizers.quantizer import CHUNK_ENTRIES
from gradsnap.progress import track

DEAD_SHARE = 0.02
"""A codeword used less than this share of the mean is dead."""

SPLIT = 2.0**-10
"""How far, relatively, the halves of a split codeword are moved apart."""


def argmin_(scores: Tensor) -> Tensor:
    """Index of the smallest entry along the last dimension; overwrites the scores.

    The first on ties; 0 where nothing can be compared, since sums of absurdly large
    codewords are no numbers any more. Three vectorized passes: what is not the minimum
    is blown up, then the smallest index is left. torch's own ``argmin`` is a scalar
    loop on the CPU and takes three times as long.
    """
    index = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
    scores -= scores.amin(dim=-1, keepdim=True)
    scores *= torch.finfo(scores.dtype).max
    found = scores.add_(index).amin(dim=-1)
    return found.nan_to_num_(0.0, posinf=0.0, neginf=0.0).long()


def assign(x: Tensor, centroids: Tensor) -> Tensor:
    """Nearest centroid of each row.

    Args:
        x: rows of B subspaces, (B, n, d).
        centroids: (B, K, d).

    Returns:
        Indices (B, n), int64.
    """
    norms = centroids.square().sum(dim=2)[:, None]  # (B, 1, K)
    rows = max(1, CHUNK_ENTRIES // (centroids.shape[0] * centroids.shape[1]))
    parts = [
        argmin_(half_distances(part, centroids, norms)) for part in x.split(rows, dim=1)
    ]
    return torch.cat(parts, dim=1)


def half_distances(x: Tensor, centroids: Tensor, norms: Tensor) -> Tensor:
    """‖c‖²/2 − ⟨x, c⟩, half of the squared distance less ‖x‖²/2: (B, n, K).

    Args:
        x: (B, n, d).
        centroids: (B, K, d).
        norms: ‖c‖², (B, 1, K).
    """
    return torch.baddbmm(norms, x, centroids.transpose(1, 2), beta=0.5, alpha=-1)


def accumulate(x: Tensor, assignment: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Sums of the rows given to each centroid, and how many there were.

    Args:
        x: (B, n, d).
        assignment: (B, n), int64.
        size: K, number of centroids.

    Returns:
        counts (B, K) and sums (B, K, d).
    """
    blocks, _, width = x.shape
    counts = torch.zeros(blocks, size, dtype=x.dtype, device=x.device)
    counts.scatter_add_(1, assignment, torch.ones_like(assignment, dtype=x.dtype))
    sums = torch.zeros(blocks, size, width, dtype=x.dtype, device=x.device)
    add = _add_by_scatter if x.device.type == "cpu" else _add_by_product
    for block in range(blocks):
        add(sums[block], assignment[block], x[block])
    return counts, sums


def _add_by_scatter(sums: Tensor, assignment: Tensor, x: Tensor) -> None:
    """Adds each row of x (n, d) to its place in sums (K, d), in the rows' order."""
    sums.scatter_add_(0, assignment[:, None].expand_as(x), x)


def _add_by_product(sums: Tensor, assignment: Tensor, x: Tensor) -> None:
    """The same by a product: on CUDA a scatter adds in any order, and runs differ."""
    rows = max(1, CHUNK_ENTRIES // len(sums))
    for places, part in zip(assignment.split(rows), x.split(rows), strict=True):
        sums += functional.one_hot(places, len(sums)).to(x.dtype).T @ part


def split_dead(centroids: Tensor, counts: Tensor, share: float) -> int:
    """Revives dead codewords in place: each becomes half of a crowded one.

    Both statistics, place and count, are reset. Nothing random and no data is
    needed, so processes with equal statistics stay equal.

    Args:
        centroids: (B, K, d).
        counts: weights of the codewords, (B, K).
        share: dead is a count at or below this share of the mean.

    Returns:
        How many codewords were revived.
    """
    size = counts.shape[1]
    floor = counts.mean(dim=1, keepdim=True) * share
    if not bool((counts <= floor).any()):  # nearly always; sorting takes longer
        return 0
    dead_first = counts.argsort(dim=1, stable=True)  # (B, K)
    ordered = counts.gather(1, dead_first)
    donors = dead_first.flip(1)  # the most used first
    splits = (ordered <= floor) & (ordered.flip(1) > 2 * floor)
    splits[:, (size + 1) // 2 :] = False
    block, rank = splits.nonzero(as_tuple=True)
    dead, donor = dead_first[block, rank], donors[block, rank]
    place, half = centroids[block, donor], counts[block, donor] / 2
    # At the origin a relative step is nothing: a nudge parts the halves there too.
    nudge = SPLIT**2 * centroids.abs().amax(dim=(1, 2))[block, None]
    centroids[block, dead] = place * (1 + SPLIT) + nudge
    centroids[block, donor] = place * (1 - SPLIT) - nudge
    counts[block, dead] = half
    counts[block, donor] = half
    return len(block)


def kmeans(
    x: Tensor,
    size: int,
    *,
    generator: torch.Generator,
    iterations: int = 25,
    start: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Lloyd's algorithm on B subspaces at once.

    Args:
        x: (B, n, d). With fewer distinct rows than centroids, some centroids are
            copies of others.
        size: K, number of centroids.
        generator: on the CPU; draws the first centroids among the rows.
        iterations: of assignment and averaging.
        start: first centroids (B, K, d), instead of drawn ones.

    Returns:
        centroids (B, K, d) and counts (B, K) of the last assignment.
    """
    if start is None:
        drawn = torch.randperm(x.shape[1], generator=generator)
        start = x[:, drawn[torch.arange(size) % len(drawn)].to(x.device)]
    centroids = start.clone()
    counts = x.new_zeros(x.shape[0], size)
    for step in track(range(iterations), "k-means"):
        if step:
            split_dead(centroids, counts, share=0.0)
        counts, sums = accumulate(x, assign(x, centroids), size)
        used = counts > 0
        centroids[used] = sums[used] / counts[used][:, None]
    return centroids, counts


def best_kmeans(
    x: Tensor, size: int, *, generator: torch.Generator, fits: int
) -> tuple[Tensor, Tensor]:
    """The best of several fits, subspace by subspace; as ``kmeans`` for the rest.

    Args:
        x: (B, n, d).
        size: K, number of centroids.
        generator: on the CPU; each fit goes on drawing from it.
        fits: how many.
    """
    centroids, counts = kmeans(x, size, generator=generator)
    least = _errors(x, centroids)
    for _ in range(fits - 1):
        other, other_counts = kmeans(x, size, generator=generator)
        errors = _errors(x, other)
        better = errors < least  # (B,)
        centroids = other.where(better[:, None, None], centroids)
        counts = other_counts.where(better[:, None], counts)
        least = torch.minimum(errors, least)
    return centroids, counts


def _errors(x: Tensor, centroids: Tensor) -> Tensor:
    """Squared distance of rows (B, n, d) to their nearest centroids, summed: (B,)."""
    chosen = assign(x, centroids)[..., None].expand_as(x)
    return (x - centroids.gather(1, chosen)).square().sum(dim=(1, 2))


def progressive_kmeans(
    x: Tensor,
    size: int,
    *,
    generator: torch.Generator,
    stages: int = 10,
    iterations: int = 10,
) -> tuple[Tensor, Tensor]:
    """k-means on ever more principal directions, each stage from the one before.

    In many dimensions Lloyd's algorithm stays near where it starts; starting in the
    few directions that matter finds lower minima (Liu et al. 2015).

    Args:
        x: (n, d).
        size: K, number of centroids.
        generator: on the CPU.
        stages: numbers of directions, in geometric steps from 1 to d.
        iterations: of k-means in each stage.

    Returns:
        centroids (K, d) and counts (K,).
    """
    centre = x.mean(dim=0)
    centred = x - centre
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)
    turned = (centred @ directions)[None]  # (1, n, d)
    found = kmeans(turned[..., :1], size, generator=generator, iterations=iterations)
    for stage in range(1, stages + 1):
        width = round(x.shape[1] ** (stage / stages))
        found = kmeans(
            turned[..., :width].contiguous(),
            size,
            generator=generator,
            iterations=iterations,
            start=functional.pad(found[0], (0, width - found[0].shape[2])),
        )
    centroids: Tensor = found[0][0] @ directions.T + centre
    return centroids, found[1][0]


def follow(
    centroids: Tensor, counts: Tensor, new_counts: Tensor, sums: Tensor, decay: float
) -> None:
    """One step of sequential k-means with decayed counts, in place.

    A codeword is the weighted mean of all that was ever given to it, each batch
    weighing ``decay`` times as much as the next one.

    Args:
        centroids: (B, K, d).
        counts: (B, K), their decayed weights.
        new_counts: how many rows of the batch fell to each, (B, K).
        sums: the sums of those rows, (B, K, d).
        decay: what remains of the earlier weight.
    """
    earlier = counts * decay
    counts.copy_(earlier + new_counts)
    touched = new_counts > 0
    share = (new_counts / counts.clamp_min(torch.finfo(counts.dtype).tiny))[..., None]
    means = sums / new_counts.clamp_min(1)[..., None]
    moved = torch.lerp(centroids, means, share)
    centroids.copy_(moved.where(touched[..., None], centroids))
    split_dead(centroids, counts, DEAD_SHARE)

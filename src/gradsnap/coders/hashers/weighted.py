"""Weighted Hamming distance: bits that tell labels apart count more."""

import numpy as np
import torch
from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.coders.hashers.similarity import Similarity
from gradsnap.coders.packing import unpacked_bits
from gradsnap.errors import InputError

RIDGE = 1e-6
"""Added to the normal equations, relative to their diagonal."""


class WeightedHasher(Hasher):
    """Another hasher's bits, each with a weight learned from labels.

    The weights w ≥ 0 bring Σₖ wₖ [bits k differ] nearest to 0 for rows that share a
    label and to 1 for rows that do not, in least squares over all pairs, both kinds of
    pairs weighing the same. They are scaled to a mean of one.

    Args:
        dim: length of a vector.
        bits: length of a hash.
        hasher: short name of the hasher whose bits are weighted.
        hasher_options: its own.
        seed: of everything random in the hasher.
    """

    supervised = True

    weights: Tensor

    def __init__(
        self,
        dim: int,
        bits: int,
        *,
        hasher: str = "itq",
        hasher_options: dict[str, object] | None = None,
        seed: int = 0,
    ) -> None:
        from gradsnap.coders.hashers import HASHERS  # which lists this class too

        super().__init__(dim, bits, seed=seed)
        kinds = [kind for kind in HASHERS if HASHERS[kind] is not WeightedHasher]
        if hasher not in kinds:
            raise InputError(
                f"hasher cannot be {hasher!r}; choose from {', '.join(kinds)}"
            )
        self.hasher, self.hasher_options = hasher, dict(hasher_options or {})
        self.inner = HASHERS[hasher].of_bits(
            dim, bits, seed=seed, **self.hasher_options
        )
        self.register_buffer("weights", torch.ones(bits))

    @property
    def statistics(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the inner hasher too."""
        return frozenset({"fitted"} | {f"inner.{one}" for one in self.inner.statistics})

    @property
    def bit_weights(self) -> Tensor:
        """What each bit that differs adds to a distance, (bits,)."""
        return self.weights

    @property
    def hamming_levels(self) -> None:
        """Distances are no whole numbers."""
        return None

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        self.inner.fit(x, labels)
        bits = unpacked_bits(self.inner.encode(x), self.bits)
        self.weights.copy_(pair_weights(bits, labels))

    def _signs(self, x: Tensor) -> Tensor:
        return self.inner._signs(x)


def pair_weights(bits: Tensor, labels: Tensor) -> Tensor:
    """Non-negative least squares over all pairs, in closed form by sets of labels.

    Args:
        bits: of all rows, bool (n, bits).
        labels: int64 (n,), or multi-hot bool (n, L).

    Returns:
        float32 (bits,), of mean one.
    """
    from scipy.optimize import nnls

    alike, unlike = _pair_moments(bits, Similarity.of(labels))
    gram = alike.gram / max(alike.pairs, 1) + unlike.gram / max(unlike.pairs, 1)
    wanted = unlike.differing / max(unlike.pairs, 1)  # 1 for unlike, 0 for alike pairs
    gram.diagonal().add_(RIDGE * float(gram.diagonal().mean()) + 1e-12)
    factor = torch.linalg.cholesky(gram)
    target = torch.linalg.solve_triangular(factor, wanted[:, None], upper=False)
    found, _ = nnls(factor.T.cpu().numpy(), target[:, 0].cpu().numpy())
    weights = torch.from_numpy(np.asarray(found)).to(bits.device)
    mean = weights.mean()
    even = torch.ones_like(weights)
    return (weights / mean if mean > 0 else even).float()


class _Moments:
    """Sums over ordered pairs of rows; d is 1 where a bit differs."""

    def __init__(self, pairs: float, differing: Tensor, gram: Tensor) -> None:
        self.pairs = pairs
        self.differing = differing
        """Σ dₖ, (bits,)."""
        self.gram = gram
        """Σ dₖ dₗ, (bits, bits)."""


def _pair_moments(bits: Tensor, similarity: Similarity) -> tuple[_Moments, _Moments]:
    """Of pairs that share a label, and of the others.

    With signs s, dₖ = (1 − sₖ s′ₖ)/2, so that sums over all pairs of two sets of rows
    are products of sums over each set: no pair is ever listed.
    """
    signs = 2 * bits.double() - 1
    counts = similarity.sets.bincount(minlength=len(similarity.table))  # (U,)
    by_set = signs[similarity.sets.argsort(stable=True)].split(counts.tolist())
    first = torch.stack([rows.sum(dim=0) for rows in by_set])  # Σ s, (U, bits)
    second = torch.stack([rows.T @ rows for rows in by_set])  # (U, bits, bits)
    counts = counts.double()
    shared = (similarity.table.double() + 1) / 2  # (U, U)
    parts = []
    for table in (shared, 1 - shared):
        pairs = counts @ table @ counts
        single = (first * (table @ first)).sum(dim=0)  # Σ sₖ s′ₖ
        both = (second * torch.einsum("uv,vkl->ukl", table, second)).sum(dim=0)
        gram = (pairs - single[:, None] - single + both) / 4
        parts.append(_Moments(float(pairs), (pairs - single) / 2, gram))
    return parts[0], parts[1]

"""Weighted Hamming distance: bits that tell labels apart count more."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradsnap.coders.hashers.hasher import Hasher
from gradsnap.coders.packing import unpacked_bits
from gradsnap.coders.similarity import Similarity
from gradsnap.errors import InputError

RIDGE = 1e-6
"""Added to the normal equations, relative to their diagonal."""

MOST_SETS = 4096
"""Different sets of labels that are compared with one another; of more, a sample."""


class WeightedHasher(Hasher):
    """Another hasher's bits, each with a weight learned from labels.

    The weights w ≥ 0 bring Σₖ wₖ [bits k differ] nearest to 0 for rows that share a
    label and to 1 for rows that do not, in least squares over all pairs, both kinds of
    pairs weighing the same. They are scaled to a mean of one. Where rows have more than
    4,096 different sets of labels, as many rows are drawn to learn the weights from.

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
        hasher_options: dict[str, Any] | None = None,
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

    @classmethod
    def dim_of_bits(cls, bits: int, **options: Any) -> int | None:
        """As the inner hasher needs."""
        from gradsnap.coders.hashers import HASHERS

        inner = HASHERS.get(options.get("hasher", "itq"))
        own = options.get("hasher_options") or {}
        return None if inner is None else inner.dim_of_bits(bits, **own)

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
        if labels.ndim == 2 and len(labels.unique(dim=0)) > MOST_SETS:
            order = torch.randperm(len(x), generator=self._generator())
            sample = order[:MOST_SETS].to(x.device)
            bits, labels = bits[sample], labels[sample]
        self.weights.copy_(pair_weights(bits, labels))

    def _signs(self, x: Tensor) -> Tensor:
        return self.inner._signs(x)


def pair_weights(bits: Tensor, labels: Tensor) -> Tensor:
    """Non-negative least squares over all pairs of rows, without listing them.

    Args:
        bits: of all rows, bool (n, bits).
        labels: int64 (n,), or multi-hot bool (n, L).

    Returns:
        float32 (bits,), of mean one.
    """
    from scipy.optimize import nnls

    alike, unlike = pair_moments(bits, labels)
    gram = alike.gram / max(alike.pairs, 1) + unlike.gram / max(unlike.pairs, 1)
    wanted = unlike.gram.diagonal() / max(unlike.pairs, 1)  # 1 for unlike, 0 for alike
    gram.diagonal().add_(RIDGE * float(gram.diagonal().mean()) + 1e-12)
    # nnls takes no normal equations, but wᵀLLᵀw − 2wᵀb is ‖Lᵀw − L⁻¹b‖² less a constant
    factor = torch.linalg.cholesky(gram)
    target = torch.linalg.solve_triangular(factor, wanted[:, None], upper=False)
    found, _ = nnls(factor.T.cpu().numpy(), target[:, 0].cpu().numpy())
    weights = torch.from_numpy(found).to(bits.device)
    mean = weights.mean()
    even = torch.ones_like(weights)
    return (weights / mean if mean > 0 else even).float()


class Moments(NamedTuple):
    """Sums over ordered pairs of two rows; dₖ is 1 where bit k differs."""

    pairs: float
    """How many there are."""
    gram: Tensor
    """Σ dₖ dₗ, (bits, bits); its diagonal is Σ dₖ."""


def pair_moments(bits: Tensor, labels: Tensor) -> tuple[Moments, Moments]:
    """Of pairs of rows that share a label, and of all other pairs.

    With signs s, 4 dₖ dₗ = 1 − sₖ s′ₖ − sₗ s′ₗ + sₖ sₗ s′ₖ s′ₗ. Each term is a number v
    of one row times that of the other; a sum of v v′ over the pairs of two sets of rows
    is the product of the sums of v over each set, so that no pair is ever listed.

    Args:
        bits: bool (n, bits).
        labels: int64 (n,), or multi-hot bool (n, L).
    """
    similarity = Similarity.of(labels)
    signs = torch.nn.functional.pad(2 * bits.float() - 1, (1, 0), value=1.0)
    every, signed = [], []
    for column in signs.T:  # one row of v = sₖ sₗ at a time: memory is n × bits
        # Whole numbers of at most n: float32 adds them without rounding below 2²⁴.
        sums = similarity.sum_by_set(signs * column[:, None])
        every.append(sums.sum(dim=0).double().square())
        signed.append((sums.double() * (similarity.table @ sums)).sum(dim=0))
    both, apart = torch.stack(every), torch.stack(signed)  # (1 + bits, 1 + bits)
    with_label = int((similarity.table.diagonal()[similarity.sets] > 0).sum())
    return (
        _moments((both + apart) / 2, with_label),
        _moments((both - apart) / 2, len(bits) - with_label),
    )


def _moments(products: Tensor, own: int) -> Moments:
    """From Σ sₖ sₗ s′ₖ s′ₗ with s₀ = 1; ``own`` are pairs of a row with itself.

    Such a pair differs nowhere, and so is in no sum, only in the count.
    """
    single = products[0, 1:]
    gram = (products[0, 0] - single[:, None] - single + products[1:, 1:]) / 4
    return Moments(float(products[0, 0]) - own, gram)

"""Supervised quantization: a linear map under which codes tell the labels."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from gradsnap.coders.quantizers.checks import checked_rows
from gradsnap.coders.quantizers.composite import CompositeQuantizer
from gradsnap.errors import InputError, NotFittedError
from gradsnap.losses.pairs import check_labels

FIRST_SHARE = 0.3
"""Length of all that tells no label, relative to what does, at the start."""

TARGET_ITERATIONS = 3
"""Of codes and codebooks while the map is still moving."""


class SupervisedQuantizer(nn.Module):
    """SQ (Wang et al. 2016): vectors are mapped, then quantized by composite codes.

    Minimizes ‖Y − X̂ W‖² + λ‖W‖² + γ‖X P − X̂‖² over a classifier W, the map P and
    reconstructions X̂ of composite codes, in turn. Given W and P the objective is a
    squared distance of X̂ to (Y Wᵀ + γ X P)(W Wᵀ + γ)⁻¹ in the metric W Wᵀ + γ, so one
    composite quantizer serves; W and P are ridge regressions. At the end the codebooks
    are learned once more, on the mapped rows themselves.

    Not in ``QUANTIZERS``: its ``fit`` needs labels, and its codes stand for mapped
    vectors. ``quantizer`` is the composite quantizer of ``project(x)``.

    Args:
        dim: length of a vector.
        num_codebooks: codewords added up for one vector.
        codebook_size: codewords in a codebook; a power of two, 2 to 65,536.
        projected_dim: length of a mapped vector; at least ``num_codebooks``, and better
            more than there are classes.
        seed: of everything random.
        iterations: of classifier, codes and map.
        coupling: γ, how much reconstructions follow the mapped rows.
        ridge: of both regressions, relative to the mean square of their input.
    """

    mean: Tensor
    projection: Tensor
    fitted: Tensor

    def __init__(
        self,
        dim: int,
        num_codebooks: int,
        codebook_size: int,
        *,
        projected_dim: int = 32,
        seed: int = 0,
        iterations: int = 3,
        coupling: float = 1.0,
        ridge: float = 1e-2,
    ) -> None:
        super().__init__()
        if not 1 <= projected_dim <= dim:
            raise InputError(f"projected_dim must be 1 to {dim}, got {projected_dim}")
        if iterations < 1 or coupling <= 0 or ridge <= 0:
            raise InputError(
                f"expected at least one iteration, and coupling and ridge above 0; got "
                f"{iterations}, {coupling} and {ridge}"
            )
        self.dim, self.seed, self.iterations = dim, seed, iterations
        self.coupling, self.ridge = coupling, ridge
        self.quantizer = CompositeQuantizer(
            projected_dim, num_codebooks, codebook_size, seed=seed
        )
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("projection", torch.zeros(dim, projected_dim))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    @property
    def bits(self) -> int:
        """Length of a code in bits."""
        return self.quantizer.bits

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain values."""
        return {
            "dim": self.dim,
            "num_codebooks": self.quantizer.num_codebooks,
            "codebook_size": self.quantizer.codebook_size,
            "projected_dim": self.quantizer.dim,
            "seed": self.seed,
            "iterations": self.iterations,
            "coupling": self.coupling,
            "ridge": self.ridge,
        }

    @torch.no_grad()
    def fit(self, x: Tensor, labels: Tensor) -> Self:
        """Learns map and codebooks from x (n, dim) with labels (n,) or (n, L)."""
        x = checked_rows(x, self.dim, torch.float32)
        check_labels(labels, len(x), "rows")
        if len(x) < 2:
            raise InputError(f"fit needs at least two rows; got {len(x)}")
        self.mean.copy_(x.mean(dim=0))
        centred, targets = x - self.mean, _centred_targets(labels)
        projection = self._first_projection(centred, targets)
        words = _unit(centred @ projection)
        for _ in range(self.iterations):
            words = self._reconstructed(_unit(centred @ projection), words, targets)
            projection = _regressed(centred, words, self.ridge)
        self.projection.copy_(projection)
        self.quantizer.fit(centred @ projection)
        self.fitted.fill_(True)
        return self

    def _first_projection(self, centred: Tensor, targets: Tensor) -> Tensor:
        """Scores of a linear classifier, then principal directions of little weight."""
        scores = _regressed(centred, targets, self.ridge)[:, : self.quantizer.dim]
        rest = _principal(centred, self.quantizer.dim - scores.shape[1])
        weight = FIRST_SHARE * _size(centred @ scores) / _size(centred)
        return torch.cat([scores, weight * rest], dim=1)

    def _reconstructed(self, mapped: Tensor, words: Tensor, targets: Tensor) -> Tensor:
        """New X̂ (n, r) given mapped rows (n, r), the last X̂, and labels (n, L)."""
        classifier = _regressed(words, targets, self.ridge)  # (r, L)
        metric = classifier @ classifier.T
        metric.diagonal().add_(self.coupling)
        values, vectors = torch.linalg.eigh(metric)
        root = vectors * values.clamp_min(1e-12).sqrt() @ vectors.T
        pulled = targets @ classifier.T + self.coupling * mapped
        wanted = torch.linalg.solve(root, pulled.T).T
        inner = CompositeQuantizer(
            self.quantizer.dim,
            self.quantizer.num_codebooks,
            self.quantizer.codebook_size,
            seed=self.seed,
            iterations=TARGET_ITERATIONS,
        ).to(mapped.device)
        found: Tensor = inner.fit(wanted)(wanted)
        new: Tensor = torch.linalg.solve(root, found.T).T
        return new

    @torch.no_grad()
    def project(self, x: Tensor) -> Tensor:
        """Mapped rows (n, projected_dim) of x (n, dim)."""
        if not self.fitted:
            raise NotFittedError(
                "this SupervisedQuantizer has no map yet: call fit(embeddings, labels)"
            )
        x = checked_rows(x, self.dim, torch.float32)
        return (x - self.mean) @ self.projection

    def encode(self, x: Tensor) -> Tensor:
        """Codes of x (n, dim): (n, num_codebooks)."""
        return self.quantizer.encode(self.project(x))

    def decode(self, codes: Tensor) -> Tensor:
        """Reconstructions of mapped rows, (n, projected_dim)."""
        return self.quantizer.decode(codes)

    def distances(self, queries: Tensor, codes: Tensor) -> Tensor:
        """Squared distances (q, n) of mapped queries (q, dim) to reconstructions."""
        return self.quantizer.distances(self.project(queries), codes)


def _size(rows: Tensor) -> float:
    """Root of the mean squared length of rows (n, d)."""
    return float(rows.square().sum(dim=1).mean().sqrt().clamp_min(1e-12))


def _unit(rows: Tensor) -> Tensor:
    """Rows (n, d) scaled together to a mean squared length of one."""
    return rows / _size(rows)


def _centred_targets(labels: Tensor) -> Tensor:
    """Labels for each class, less their mean, mean squared length one, (n, L)."""
    if labels.ndim == 1:
        _, numbers = labels.unique(return_inverse=True)
        labels = torch.nn.functional.one_hot(numbers)
    targets = labels.float()
    return _unit(targets - targets.mean(dim=0))


def _principal(centred: Tensor, count: int) -> Tensor:
    """Directions of most variance, (dim, count)."""
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    directions: Tensor = vectors.flip(1)[:, :count]
    return directions


def _regressed(x: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """Least squares with a ridge: weights (d, t) from x (n, d) to targets (n, t)."""
    gram = x.T @ x
    gram.diagonal().add_(ridge * float(gram.diagonal().mean()) + 1e-12)
    weights: Tensor = torch.linalg.solve(gram, x.T @ targets)
    return weights

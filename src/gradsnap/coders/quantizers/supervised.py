"""Supervised quantization: a linear map under which codes tell the labels."""

from typing import Any, Self

import torch
from torch import Tensor

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers.composite import CompositeQuantizer
from gradsnap.coders.quantizers.quantizer import split_bits
from gradsnap.coders.rotations import principal_directions
from gradsnap.coders.similarity import many_hot
from gradsnap.coders.tables import Tables
from gradsnap.errors import InputError

FIRST_SHARE = 0.3
"""Length of all that tells no label, relative to what does, at the start."""

TARGET_ITERATIONS = 3
"""Of codes and codebooks while the map is still moving."""


class SupervisedQuantizer(Coder):
    """SQ (Wang et al. 2016): vectors are mapped, then quantized by composite codes.

    Minimizes ‖Y − X̂ W‖² + λ‖W‖² + γ‖X P − X̂‖² over a classifier W, the map P and
    reconstructions X̂ of composite codes, in turn. Given W and P the objective is a
    squared distance of X̂ to (Y Wᵀ + γ X P)(W Wᵀ + γ)⁻¹ in the metric W Wᵀ + γ, so one
    composite quantizer serves; W and P are ridge regressions. At the end the codebooks
    are learned once more, on the mapped rows themselves.

    A coder and not a quantizer: its codes stand for mapped vectors, and no gradient
    can be snapped to them. ``quantizer`` is the composite quantizer of ``project(x)``.

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

    supervised = True
    statistics = frozenset({"fitted", "quantizer.fitted", "quantizer.counts"})
    _fewest_rows = 2

    mean: Tensor
    projection: Tensor

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
        super().__init__(dim, seed=seed)
        if not 1 <= projected_dim <= dim:
            raise InputError(f"projected_dim must be 1 to {dim}, got {projected_dim}")
        if iterations < 1 or coupling <= 0 or ridge <= 0:
            raise InputError(
                f"expected at least one iteration, and coupling and ridge above 0; got "
                f"{iterations}, {coupling} and {ridge}"
            )
        self.num_codebooks, self.codebook_size = num_codebooks, codebook_size
        self.projected_dim, self.iterations = projected_dim, iterations
        self.coupling, self.ridge = coupling, ridge
        self.quantizer = CompositeQuantizer(
            projected_dim, num_codebooks, codebook_size, seed=seed
        )
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("projection", torch.zeros(dim, projected_dim))

    @classmethod
    def of_bits(
        cls, dim: int, bits: int, codebook_size: int | None = None, **options: Any
    ) -> Self:
        """A coder of so many bits; vectors shorter than the map are mapped to dim."""
        num_codebooks, size = split_bits(bits, codebook_size)
        options.setdefault("projected_dim", min(dim, max(32, num_codebooks)))
        return cls(dim, num_codebooks, size, **options)

    @property
    def bits(self) -> int:
        """Length of a code in bits."""
        return self.quantizer.bits

    @property
    def dtype(self) -> torch.dtype:
        """The floating type of the map."""
        return self.projection.dtype

    def _fit(self, x: Tensor, labels: Tensor) -> None:
        self.mean.copy_(x.mean(dim=0))
        centred, targets = x - self.mean, _centred_targets(labels).to(x)
        projection = self._first_projection(centred, targets)
        words = _unit(centred @ projection)
        for _ in range(self.iterations):
            words = self._reconstruct(_unit(centred @ projection), words, targets)
            projection = ridge_regression(centred, words, self.ridge)
        self.projection.copy_(projection)
        self.quantizer.fit(centred @ projection)

    def _first_projection(self, centred: Tensor, targets: Tensor) -> Tensor:
        """Scores of a linear classifier, then principal directions of little weight."""
        scores = ridge_regression(centred, targets, self.ridge)[:, : self.quantizer.dim]
        rest = principal_directions(centred, self.quantizer.dim - scores.shape[1])
        weight = FIRST_SHARE * _size(centred @ scores) / _size(centred)
        return torch.cat([scores, weight * rest], dim=1)

    def _reconstruct(self, mapped: Tensor, words: Tensor, targets: Tensor) -> Tensor:
        """New X̂ (n, r) given mapped rows (n, r), the last X̂, and labels (n, L)."""
        classifier = ridge_regression(words, targets, self.ridge)  # (r, L)
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
        ).to(mapped)
        found: Tensor = inner.fit(wanted)(wanted)
        new: Tensor = torch.linalg.solve(root, found.T).T
        return new

    @torch.no_grad()
    def project(self, x: Tensor) -> Tensor:
        """Mapped rows (n, projected_dim) of x (n, dim)."""
        return self._project(self._ready(x))

    def _project(self, x: Tensor) -> Tensor:
        return (x - self.mean) @ self.projection

    def _encode(self, x: Tensor) -> Tensor:
        return self.quantizer._encode(self._project(x))

    def _tables(self, queries: Tensor) -> Tables:
        return self.quantizer._tables(self._project(queries))

    def _code_tables(self, codes: Tensor) -> Tables:
        return self.quantizer._code_tables(codes)

    def _cross_terms(self, codes: Tensor) -> Tensor:
        return self.quantizer._cross_terms(codes)


def _size(rows: Tensor) -> float:
    """Root of the mean squared length of rows (n, d)."""
    return float(rows.square().sum(dim=1).mean().sqrt().clamp_min(1e-12))


def _unit(rows: Tensor) -> Tensor:
    """Rows (n, d) scaled together to a mean squared length of one."""
    return rows / _size(rows)


def _centred_targets(labels: Tensor) -> Tensor:
    """Labels for each class, less their mean, mean squared length one, (n, L)."""
    targets = many_hot(labels)
    return _unit(targets - targets.mean(dim=0))


def ridge_regression(x: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """Least squares with a ridge: weights (d, t) from x (n, d) to targets (n, t)."""
    gram = x.T @ x
    gram.diagonal().add_(ridge * float(gram.diagonal().mean()) + 1e-12)
    weights: Tensor = torch.linalg.solve(gram, x.T @ targets)
    return weights

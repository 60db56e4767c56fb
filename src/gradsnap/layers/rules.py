"""Rules: which codeword a gradient is snapped to, and what becomes of the gradient.

A rule is an object of its own, so that the layer's rule, the paper's printed equations
and output regularization can be compared in one run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from gradsnap.errors import InputError

Falloff = Callable[[Tensor, Tensor], Tensor]
"""Squared distances (n, T) and squared mean distances (n, 1) to weights (n, T)."""


class Choice(NamedTuple):
    """Which candidate each row was given."""

    place: Tensor
    """Place among the candidates, (n,), int64."""
    weight: Tensor
    """The falloff at its distance, (n,)."""


class Rule(Protocol):
    """How a gradient is snapped: which candidate, and what becomes of the gradient.

    Rules are frozen dataclasses, so that one can be replaced while a run goes on.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def strength(self) -> float:
        """λ; what it weighs is the rule's own."""

    def choose(self, distances: Tensor, slopes: Tensor) -> Choice:
        """Chooses from squared distances (n, T), ascending, and ⟨g, y − c⟩ (n, T)."""

    def combine(
        self, gradient: Tensor, offset: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Turns gradient (n, dim) by offset y − c* (n, dim) and its weight (n,).

        Returns:
            Δy (n, dim), and whether each row was accepted (n,).
        """


def gaussian(squared_distances: Tensor, squared_mean: Tensor) -> Tensor:
    """exp(−d²/σ²): the falloff that does not change with the embedding's scale."""
    return torch.exp(-squared_distances / positive(squared_mean))


@dataclass(frozen=True)
class SnappingRule:
    """Turns the gradient toward the codeword that agrees with it best, weighted.

    Of g, the part along u = (y − c*)/‖y − c*‖ is kept with weight w and the rest with
    weight λ(1 − cos²θ); see the module ``gradsnap.layers.snapping`` for the equations.

    Args:
        strength: λ, the share of the gradient that is not turned to the codeword. It
            is a ratio of two pulls: less of it quantizes better and learns similarity
            more slowly.
        falloff: f, how a codeword's weight falls with its distance.
        rejected_strength: the share of the gradient where no codeword lies down-hill;
            λ if not given, as in the paper.
    """

    strength: float = 0.3
    falloff: Falloff = gaussian
    rejected_strength: float | None = None

    def __post_init__(self) -> None:
        _check_strength(self.strength)
        if self.rejected_strength is not None:
            _check_strength(self.rejected_strength)

    def choose(self, distances: Tensor, slopes: Tensor) -> Choice:
        """Takes the candidate with the largest w⟨g, u⟩."""
        lengths = distances.sqrt()
        weights = self.falloff(distances, lengths.mean(dim=1, keepdim=True).square())
        scores = weights * slopes / positive(lengths)
        place = scores.argmax(dim=1)
        return Choice(place, _at(weights, place))

    def combine(
        self, gradient: Tensor, offset: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """λ(1 − cos²θ)g + w⟨g, u⟩u, or λg where that would climb."""
        unit = offset / positive(length(offset))
        slope = (gradient * unit).sum(dim=1, keepdim=True)  # ⟨g, u⟩, (n, 1)
        cosine = slope / positive(length(gradient))
        kept = self.strength * (1 - cosine.square()).clamp_min(0)
        snapped = kept * gradient + weight[:, None] * slope * unit
        accepted = slope > 0
        rejected = self.rejected_strength
        share = self.strength if rejected is None else rejected
        return snapped.where(accepted, share * gradient), accepted[:, 0]


@dataclass(frozen=True)
class PrintedRule:
    """The paper's equations taken literally. For audit only.

    Under descent the printed Δc ∝ c − y picks an up-hill codeword and walks away from
    it: on the digits, snapped from the first step, the loss does not fall and the
    relative quantization error climbs above 1. The printed λ₁ divides by ‖g‖ instead of
    its square, so the rule is not homogeneous. And the printed falloff exp(−d²/σ) of
    d = ‖c − y‖² mixes units: once embeddings have spread, after a warm-up, it
    underflows, and what is left is nearly the plain gradient times λ.

    Args:
        strength: λ.
    """

    strength: float = 0.036

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def choose(self, distances: Tensor, slopes: Tensor) -> Choice:
        """Takes the largest gᵀΔc, where Δc = f(‖c − y‖²)(c − y)/‖c − y‖."""
        lengths = distances.sqrt()
        sigma = lengths.mean(dim=1, keepdim=True)
        weights = torch.exp(-distances.square() / positive(sigma))
        place = (-weights * slopes / positive(lengths)).argmax(dim=1)
        return Choice(place, _at(weights, place))

    def combine(
        self, gradient: Tensor, offset: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """λ₁g + λ₂Δc with the printed λ₁ and λ₂, written with Δc = f·u.

        f cancels in λ₁ and λ₂ = ⟨g, u⟩, so that an f too small for a float is no 0/0.
        """
        unit = -offset / positive(length(offset))
        slope = (gradient * unit).sum(dim=1, keepdim=True)  # λ₂
        first = 1 - slope.square() / positive(length(gradient))
        snapped = self.strength * first * gradient + slope * weight[:, None] * unit
        accepted = slope >= 0
        return snapped.where(accepted, self.strength * gradient), accepted[:, 0]


@dataclass(frozen=True)
class OutputRegularization:
    """The gradient of E + λ·mean‖y − q(y)‖²: what DQN and its kin add to the loss.

    The same as adding ``QuantizationPenalty(quantizer, λ)`` to the loss, in a form
    that reports conformity like the other rules. Only the nearest codeword counts, so
    ``neighbors=1`` is enough.

    Args:
        strength: λ.
    """

    strength: float = 0.1

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def choose(self, distances: Tensor, slopes: Tensor) -> Choice:
        """Takes the nearest codeword, whatever the gradient."""
        place = torch.zeros_like(slopes[:, 0], dtype=torch.int64)
        return Choice(place, torch.ones_like(distances[:, 0]))

    def combine(
        self, gradient: Tensor, offset: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """G + 2λ(y − q(y))/n."""
        pull = 2 * self.strength / max(len(offset), 1)
        return gradient + pull * offset, torch.ones_like(weight, dtype=torch.bool)


def length(rows: Tensor) -> Tensor:
    """Euclidean length of each row (n, dim), as (n, 1)."""
    return rows.square().sum(dim=1, keepdim=True).sqrt()


def positive(values: Tensor) -> Tensor:
    """Makes a division by zero give zero: what it divides is then zero too."""
    return values.clamp_min(torch.finfo(values.dtype).tiny)


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None])[:, 0]


def _check_strength(strength: float) -> None:
    if not 0 <= strength < float("inf"):
        raise InputError(f"strength must be zero or more and finite, got {strength}")

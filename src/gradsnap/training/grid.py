"""The settings that a search may try, and in which order."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradsnap.coders.quantizers.quantizer import ROWS_A_CODEWORD
from gradsnap.errors import InputError

KINDS = ("plain", "snapping", "soft-codes", "codes")
"""The layers that are tried; a step of the last takes longest."""

LAYERS: dict[str, tuple[dict[str, float], ...]] = {
    "plain": ({},),
    "snapping": ({"strength": 0.3}, {"strength": 1.0}),
    "codes": (
        {"strength": 0.3, "mixture": 1.0},
        {"strength": 0.3, "mixture": 0.3},
        {"strength": 0.1, "mixture": 0.0},
        {"strength": 0.3, "mixture": 0.0},
    ),
    "soft-codes": ({"mixture": 1.0}, {"mixture": 0.3}, {"mixture": 0.0}),
}
"""Strength λ and mixture μ of each kind, the likeliest first."""

DIMS = (32, 64, 128)
RATES = (0.01, 0.03, 0.003)
CODEBOOK_SIZES = (4, 16, 256)
ORDER = ("plain", "soft-codes", "snapping", "soft-codes", "codes")
"""Whose turn it is: what wins most often comes most often."""


@dataclass(frozen=True)
class Trial:
    """One point of the grid."""

    layer: str
    rate: float
    dim: int
    codebook_size: int | None = None
    """None: as the coder chooses."""
    strength: float | None = None
    mixture: float | None = None

    @property
    def settings(self) -> tuple[str, ...]:
        """As ``section.key=value``."""
        values = {
            "layer.name": self.layer,
            "layer.options.strength": self.strength,
            "loss.mixture": self.mixture,
            "network.dim": self.dim,
            "coder.codebook_size": self.codebook_size,
            "optimizer.rate": self.rate,
        }
        return tuple(f"{key}={one}" for key, one in values.items() if one is not None)

    def differs(self, other: "Trial") -> int:
        """In how many things: rate, dimension, codebooks, and the layer's options."""
        options = (self.strength, self.mixture) != (other.strength, other.mixture)
        places = self.rate != other.rate, self.dim != other.dim
        return sum((*places, self.codebook_size != other.codebook_size, options))

    def on_the_ground_of(self, other: "Trial") -> "Trial":
        """This layer with the other's codebooks, dimension and rate."""
        size, dim, rate = other.codebook_size, other.dim, other.rate
        return replace(self, codebook_size=size, dim=dim, rate=rate)

    def __str__(self) -> str:
        values = {
            "λ": self.strength,
            "μ": self.mixture,
            "K": self.codebook_size,
            "dim": self.dim,
            "rate": self.rate,
        }
        words = [f"{name} {one:g}" for name, one in values.items() if one is not None]
        return ", ".join([self.layer, *words])


def layouts(bits: int, training_rows: int) -> list[int | None]:
    """Sizes of codebooks that give these bits, the likeliest first.

    Few codebooks of many codewords come before many of few: a single one, where there
    are rows enough for it, is free to put its codewords anywhere.

    Example:
        >>> layouts(4, 1000), layouts(8, 5000), layouts(8, 500), layouts(7, 1000)
        ([16, 4], [256, 16, 4], [16, 4], [None])
    """
    found: list[int | None] = [
        size
        for size in sorted(CODEBOOK_SIZES, reverse=True)
        if bits % int(math.log2(size)) == 0 and training_rows >= ROWS_A_CODEWORD * size
    ]
    return found or [None]


@dataclass(frozen=True)
class Grid:
    """What may be chosen, each list with the likeliest first."""

    bits: int
    sizes: Sequence[int | None]
    dims: Sequence[int] = DIMS
    rates: Sequence[float] = RATES
    kinds: Sequence[str] = KINDS

    def trials(self, seed: int) -> list[Trial]:
        """All points, the likeliest of each kind first, in turns."""
        lines = {kind: iter(self._line(kind, seed)) for kind in self.kinds}
        turns: list[Trial | None] = []
        total = sum(len(self._points(kind)) for kind in self.kinds)
        order = [kind for kind in ORDER if kind in self.kinds]
        for kind in itertools.islice(itertools.cycle(order), len(order) * total):
            turns.append(next(lines[kind], None))
        return [trial for trial in turns if trial is not None]

    def around(self, trial: Trial) -> list[Trial]:
        """The points of the same kind that differ from a trial in one thing alone.

        >>> grid = Grid(8, [256, 16], dims=[32, 64], rates=[0.01], kinds=["plain"])
        >>> [str(one) for one in grid.around(Trial("plain", 0.01, 32, 256))]
        ['plain, K 256, dim 64, rate 0.01', 'plain, K 16, dim 32, rate 0.01']
        """
        return [one for one in self._points(trial.layer) if one.differs(trial) == 1]

    def _line(self, kind: str, seed: int) -> list[Trial]:
        """Of one kind: each next one has the values that were drawn least so far.

        The kinds begin with different codebooks, so that few trials see them all.
        """
        rest = self._points(kind)
        size = self.sizes[KINDS.index(kind) % len(self.sizes)]
        first = next((one for one in rest if one.codebook_size == size), rest[0])
        rest.remove(first)
        random.Random(f"{seed} {kind}").shuffle(rest)
        drawn, counts = [first], Counter(first.settings)
        while rest:
            following = min(rest, key=lambda one: sum(counts[x] for x in one.settings))
            rest.remove(following)
            counts.update(following.settings)
            drawn.append(following)
        return drawn

    def _points(self, kind: str) -> list[Trial]:
        axes = itertools.product(self.sizes, self.dims, self.rates, LAYERS[kind])
        points = [
            Trial(kind, rate, dim, size, **options)
            for size, dim, rate, options in axes
            if self._fits(dim, size)
        ]
        if not points:
            raise InputError(
                f"{self.bits} bits in codebooks of {', '.join(map(str, self.sizes))} "
                f"codewords need more dimensions than {max(self.dims)}: set network.dim"
            )
        return points

    def _fits(self, dim: int, size: int | None) -> bool:
        """Whether each codebook has a dimension of its own."""
        return size is None or self.bits // int(math.log2(size)) <= dim

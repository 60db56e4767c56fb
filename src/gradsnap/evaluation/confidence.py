"""How sure a figure is: over queries, over seeds, and against a rival.

``scipy.stats`` has both resamplings, and they were weighed: its permutation test takes
many times as long as ours over 50,000 queries, and importing it longer than a bootstrap
of a thousand. Only Student's t comes from there.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.arrays import Given, as_tensor
from gradsnap.errors import InputError

RESAMPLES = 2_000
"""Draws of queries: the ends of a 95 % interval then have 50 draws beyond them."""

SIGN_DRAWS = 10_000
"""Draws of signs in a paired test: the least p-value is a ten-thousandth."""

CHUNK_ENTRIES = 1 << 22
"""Drawn queries held at once, 32 MiB.

All resamples of 50,000 queries together would be 4 GiB.
"""


class Interval(NamedTuple):
    """Two ends, low then high."""

    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """Figures of several seeds."""

    mean: float
    deviation: float
    """Sample standard deviation; NaN for one seed."""
    interval: Interval
    """Of the mean, by Student's t; both ends NaN for one seed."""
    seeds: int

    def __str__(self) -> str:
        if self.seeds == 1:
            return f"{self.mean:.4f} (one seed)"
        return f"{self.mean:.4f} ± {self.deviation:.4f} ({self.seeds} seeds)"


@dataclass(frozen=True)
class PairedTest:
    """Whether A beats B on the same queries."""

    difference: float
    """Mean of A − B."""
    interval: Interval
    """Bootstrap interval of the difference, 95 %."""
    p_value: float
    """Two-sided, of a permutation test: how often random signs do as much."""
    queries: int

    @property
    def better(self) -> bool:
        """Whether A is better, at the 5 % level."""
        return self.difference > 0 and self.p_value < 0.05

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"difference {self.difference:+.4f} (95 %: {low:+.4f} to {high:+.4f}), "
            f"p = {self.p_value:.4g}, {self.queries} queries"
        )


def bootstrap(
    values: Given, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Percentile interval of the mean over queries drawn again with replacement.

    Args:
        values: one figure a query, (q,); NaN is left out.
        level: share of resamples inside, between 0 and 1.
        resamples: how often the queries are drawn again.
        seed: of the draws.
    """
    values = _without_nan(as_tensor(values))
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}")
    size = (resamples, len(values))
    parts = _draws(len(values), size, torch.int64, seed)
    means = torch.cat([values[part].mean(dim=1) for part in parts])
    ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = means.quantile(ends).tolist()
    return Interval(low, high)


def spread(figures: Sequence[float], level: float = 0.95) -> Spread:
    """Mean, deviation and Student interval of one figure over seeds.

    Example:
        >>> print(spread([0.70, 0.72, 0.71]))
        0.7100 ± 0.0100 (3 seeds)
    """
    if not figures:
        raise InputError("a spread needs the figure of at least one seed")
    values = torch.tensor(figures, dtype=torch.float64)
    mean, nan = float(values.mean()), float("nan")
    if len(values) == 1:
        return Spread(mean, nan, Interval(nan, nan), 1)
    from scipy.stats import t

    deviation = float(values.std())
    half = float(t.ppf((1 + level) / 2, len(values) - 1)) * deviation
    half /= math.sqrt(len(values))
    return Spread(mean, deviation, Interval(mean - half, mean + half), len(values))


def paired_test(
    ours: Given, theirs: Given, draws: int = SIGN_DRAWS, seed: int = 0
) -> PairedTest:
    """Permutation test of the mean difference over the same queries.

    If A and B did equally well, each query's difference could as well have the other
    sign; the p-value is the share of random signs that do at least as much, counting
    the signs as they are among them.

    Args:
        ours: A's figure for each query, (q,).
        theirs: B's figure for the same queries, (q,).
        draws: how often signs are drawn.
        seed: of the draws.
    """
    ours, theirs = as_tensor(ours), as_tensor(theirs)
    if ours.shape != theirs.shape or ours.ndim != 1:
        raise InputError(
            f"a paired test needs the same queries on both sides, (q,); got "
            f"{tuple(ours.shape)} and {tuple(theirs.shape)}"
        )
    difference = _without_nan(ours.double() - theirs.double())
    observed = abs(float(difference.mean()))
    as_much = 0
    for part in _draws(2, (draws, len(difference)), torch.float64, seed):
        signs = part.mul_(2).sub_(1)
        means = (signs @ difference / len(difference)).abs()
        as_much += int((means >= observed * (1 - 1e-12)).sum())
    return PairedTest(
        difference=float(difference.mean()),
        interval=bootstrap(difference, seed=seed),
        p_value=(1 + as_much) / (1 + draws),
        queries=len(difference),
    )


def _draws(
    choices: int, size: tuple[int, int], dtype: torch.dtype, seed: int
) -> Iterator[Tensor]:
    """Random numbers 0 to ``choices − 1`` for resamples x queries, by parts (c, q)."""
    resamples, queries = size
    generator = torch.Generator().manual_seed(seed)
    step = max(1, CHUNK_ENTRIES // queries)
    for done in range(0, resamples, step):
        part = (min(step, resamples - done), queries)
        yield torch.randint(choices, part, generator=generator, dtype=dtype)


def _without_nan(values: Tensor) -> Tensor:
    """The figures that are not NaN, float64 on the CPU."""
    kept = values.detach().cpu().double()
    kept = kept[~kept.isnan()]
    if values.ndim != 1 or not len(kept):
        raise InputError(
            f"expected one figure a query, (q,), not all NaN; got shape "
            f"{tuple(values.shape)}"
        )
    return kept

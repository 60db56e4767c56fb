"""Slow twins of the metrics: loops from their definitions, and every order of ties."""

import itertools
import math
from collections.abc import Iterator, Sequence

Grades = Sequence[int]


def orders(distances: Sequence[float], grades: Grades) -> Iterator[list[int]]:
    """The grades in every order that the distances allow, each order as likely."""
    levels = sorted(set(distances))
    groups = [
        [g for d, g in zip(distances, grades, strict=True) if d == level]
        for level in levels
    ]
    every = [list(itertools.permutations(group)) for group in groups]
    for chosen in itertools.product(*every):
        yield [grade for group in chosen for grade in group]


def average_precision(ranked: Grades, total: int, cut: int, divisor: str) -> float:
    """Sum of the precision at each hit of the first ``cut``, over the divisor."""
    hits, summed = 0, 0.0
    for rank, grade in enumerate(ranked[:cut], start=1):
        if grade > 0:
            hits += 1
            summed += hits / rank
    over = hits if divisor == "found" else min(cut, total)
    return summed / over if over else 0.0


def hits_at(ranked: Grades, n: int) -> int:
    """Relevant among the first n."""
    return sum(grade > 0 for grade in ranked[:n])


def discounted_gain(ranked: Grades, cut: int) -> float:
    """Σ (2^grade − 1) / log2(1 + rank) over the first ``cut``."""
    return sum(
        float(2**grade - 1) / math.log2(1 + rank)
        for rank, grade in enumerate(ranked[:cut], start=1)
    )


def hamming(left: Sequence[bool], right: Sequence[bool]) -> int:
    """Bits that differ."""
    return sum(a != b for a, b in zip(left, right, strict=True))

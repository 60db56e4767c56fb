"""Slow twins of the snapping rules: loops over rows and codewords, in plain floats."""

import itertools
import math

import torch
from torch import Tensor

from gradsnap.coders.quantizers import Quantizer


def all_codewords(quantizer: Quantizer) -> Tensor:
    """Every codeword there is, (K ** M, dim)."""
    choices = [range(quantizer.codebook_size)] * quantizer.num_codebooks
    return quantizer.decode(torch.tensor(list(itertools.product(*choices))))


def nearest(
    row: list[float], words: list[list[float]], count: int
) -> list[list[float]]:
    return sorted(words, key=lambda word: math.dist(row, word))[:count]


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def snapped_row(
    y: list[float], g: list[float], near: list[list[float]], strength: float
) -> list[float]:
    """Δy of one row by DESIGN's formula."""
    sigma = sum(math.dist(y, c) for c in near) / len(near)
    best, best_score = None, -math.inf
    for c in near:
        length = math.dist(y, c)
        u = [(a - b) / length if length else 0.0 for a, b in zip(y, c, strict=True)]
        weight = math.exp(-(length**2) / sigma**2) if sigma else 1.0
        if weight * dot(g, u) > best_score:
            best, best_score = (u, weight), weight * dot(g, u)
    if best is None or best_score <= 0:
        return [strength * a for a in g]
    u, weight = best
    cosine = dot(g, u) / math.sqrt(dot(g, g))
    keep = strength * (1 - cosine**2)
    return [keep * a + weight * dot(g, u) * b for a, b in zip(g, u, strict=True)]


def printed_row(
    y: list[float], g: list[float], near: list[list[float]], strength: float
) -> list[float]:
    """Δy of one row by the equations as the paper prints them."""
    sigma = sum(math.dist(y, c) for c in near) / len(near)

    def delta(c: list[float]) -> list[float]:
        squared = math.dist(y, c) ** 2
        f = math.exp(-(squared**2) / sigma)
        return [f * (b - a) / math.dist(y, c) for a, b in zip(y, c, strict=True)]

    step = max((delta(c) for c in near), key=lambda d: dot(g, d))
    if dot(g, step) < 0:
        return [strength * a for a in g]
    size = math.sqrt(dot(step, step))
    first = (1 - dot(g, step) ** 2 / (size**2 * math.sqrt(dot(g, g)))) * strength
    second = dot(g, step) / size
    return [first * a + second * b for a, b in zip(g, step, strict=True)]


def snapped(
    quantizer: Quantizer, y: Tensor, g: Tensor, neighbors: int, strength: float, rule
) -> Tensor:
    words = all_codewords(quantizer).double().tolist()
    rows = zip(y.double().tolist(), g.double().tolist(), strict=True)
    out = [rule(a, b, nearest(a, words, neighbors), strength) for a, b in rows]
    return torch.tensor(out, dtype=torch.float64)

"""Composite codes: error between PQ's and AQ's, and what the constant costs."""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks import fits
from benchmarks.errors import beside
from benchmarks.report import Bar, Row, compared
from benchmarks.vectors import Setting, Vectors, embeddings_part, mnist_part, on_each
from gradsnap.coders.quantizers import (
    AdditiveQuantizer,
    CompositeQuantizer,
    ProductQuantizer,
    Quantizer,
)

QUERIES, DATABASE, NEAREST = 500, 10_000, 10
BOUNDS: tuple[tuple[type[Quantizer], Bar], ...] = (
    (ProductQuantizer, Bar("≤", 1.0)),
    (AdditiveQuantizer, Bar("≥", 1.0)),
)


def run(setting: Setting) -> Iterator[Row]:
    """Codes of 32 bits on both sets."""
    yield from on_each(setting, (mnist_part, embeddings_part), _measured)


def _measured(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    composite = fits.ours(CompositeQuantizer, vectors, 4, setting.words)
    for kind, bar in BOUNDS:
        other = fits.ours(kind, vectors, 4, setting.words)
        what = f"CQ / {fits.LABELS[kind]} (ours), 4 x {setting.words}, {vectors}"
        yield from beside(what, composite, other, bar, vectors)
    yield from _slack(composite, vectors)


def _slack(composite: CompositeQuantizer, vectors: Vectors) -> Iterator[Row]:
    error = fits.error(composite, vectors.train)
    codes = composite.encode(vectors.train[:DATABASE])
    slack = float(composite.slack(codes).std())
    yield compared(f"CQ slack, standard deviation / error, {vectors}", slack, error)
    queries = vectors.held_out[:QUERIES]
    truth = _nearest(torch.cdist(queries, composite.decode(codes)))
    found = _nearest(composite.distances(queries, codes))
    recall = (found[:, :, None] == truth[:, None]).any(dim=2).double().mean()
    what = f"CQ recall@{NEAREST} with the constant, {vectors}"
    yield Row(what, float(recall), note="against exact distances to reconstructions")


def _nearest(distances: Tensor) -> Tensor:
    """The nearest items of each query (q, n); ties, also of equal codes, by place."""
    return distances.argsort(dim=1, stable=True)[:, :NEAREST]

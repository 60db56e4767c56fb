"""Candidates of the additive family: what the beam finds, and how long it takes."""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks import fits
from benchmarks.report import Row, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import (
    Setting,
    Vectors,
    embeddings_part,
    gaussian,
    headed,
    on_each,
)
from gradsnap.coders.quantizers import (
    AdditiveQuantizer,
    CompositeQuantizer,
    GeneralizedResidualQuantizer,
    Quantizer,
    ResidualQuantizer,
)

NEIGHBORS, BATCH = 150, 128
SMALL = ((3, 16), (4, 16))
KINDS: tuple[type[Quantizer], ...] = (
    ResidualQuantizer,
    GeneralizedResidualQuantizer,
    AdditiveQuantizer,
    CompositeQuantizer,
)


def run(setting: Setting) -> Iterator[Row]:
    """Recall against all codes there are, then the time at full size."""
    yield from on_each(setting, (headed, gaussian), _recalls)
    yield from on_each(setting, (embeddings_part,), _time)


def _recalls(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    part = Vectors(vectors.name, vectors.train[:5000], vectors.held_out)
    for num_codebooks, words in SMALL:
        for kind in KINDS:
            quantizer = fits.ours(kind, part, num_codebooks, words)
            what = f"{fits.LABELS[kind]} {num_codebooks} x {words}, {part}"
            found = recall(quantizer, part.held_out[:BATCH])
            yield Row(f"recall of {NEIGHBORS} candidates, {what}", found)


def recall(quantizer: Quantizer, x: Tensor) -> float:
    """Share of the true nearest codewords of x (n, dim) among the candidates."""
    count = quantizer.codebook_size**quantizer.num_codebooks
    every = torch.arange(count)[:, None] // quantizer.codebook_size ** torch.arange(
        quantizer.num_codebooks
    )
    every = every.remainder(quantizer.codebook_size)  # (count, M)
    exact = torch.cdist(x.double(), quantizer.decode(every).double())
    limit = exact.kthvalue(NEIGHBORS, dim=1, keepdim=True).values
    codes = quantizer.candidates(x, NEIGHBORS).codes.long()
    place = (codes * quantizer.codebook_size ** torch.arange(codes.shape[2])).sum(dim=2)
    reached = exact.gather(1, place) <= limit * (1 + 1e-6)
    return float(reached.double().mean())


def _time(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    quantizer = fits.ours(ResidualQuantizer, vectors, 4, setting.words)
    x = vectors.held_out[:BATCH]
    say("beam: timing candidates …")
    calls = {"ours": lambda: quantizer.candidates(x, NEIGHBORS)}
    best = best_interleaved(calls, setting.repeats(10))["ours"]
    what = f"{BATCH} rows, T = {NEIGHBORS}, RVQ 4 x {setting.words}, {vectors}"
    yield Row(f"time of {what}", best * 1e3, unit="ms")

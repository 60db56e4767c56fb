"""Quantizers fitted to the benchmarks' vectors, ours and FAISS's; each fitted once."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import faiss
import numpy as np
import torch
from torch import Tensor

from benchmarks.report import Row, say
from benchmarks.vectors import (
    Setting,
    Vectors,
    embeddings,
    embeddings_part,
    mnist,
    mnist_part,
    on_each,
)
from gradsnap.coders.packing import bits_of
from gradsnap.coders.quantizers import (
    QUANTIZERS,
    AdditiveQuantizer,
    GeneralizedResidualQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
)
from gradsnap.coders.quantizers.summed import SummedQuantizer

CHUNK_ROWS = 10_000

Codes = Any
"""A tensor of ours, an array of FAISS's."""


class Coder(Protocol):
    """Vectors to codes and back, whoever wrote it."""

    def encode(self, x: Tensor, /) -> Codes:
        """Codes of x (n, dim)."""

    def decode(self, codes: Codes, /) -> Tensor:
        """Reconstructions (n, dim)."""


class FaissCoder:
    """A FAISS quantizer, behind a rotation if one is given."""

    def __init__(self, quantizer: Any, rotation: Any = None) -> None:
        self.quantizer = quantizer
        self.rotation = rotation
        self.held: object = None

    def train(self, x: np.ndarray) -> "FaissCoder":
        """Fits the rotation, if any, then the quantizer, to x (n, dim)."""
        if self.rotation is not None:
            self.rotation.train(x)
            x = self.rotation.apply(x)
        self.quantizer.train(x)
        return self

    def encode(self, x: Tensor) -> np.ndarray:
        """Packed codes of x (n, dim)."""
        rows = x.numpy()
        if self.rotation is not None:
            rows = self.rotation.apply(rows)
        codes: np.ndarray = self.quantizer.compute_codes(rows)
        return codes

    def decode(self, codes: np.ndarray) -> Tensor:
        """Reconstructions (n, dim)."""
        rows = self.quantizer.decode(codes)
        if self.rotation is not None:
            rows = self.rotation.reverse_transform(rows)
        return torch.from_numpy(rows)


class LookUpCoder(FaissCoder):
    """FAISS's residual quantizer, searched with look-up tables.

    The same codes several times as fast; FAISS does not do it by default.
    """

    def __init__(self, coder: FaissCoder) -> None:
        super().__init__(coder.quantizer)
        self.quantizer.compute_codebook_tables()

    def encode(self, x: Tensor) -> np.ndarray:
        """Packed codes of x (n, dim)."""
        self.quantizer.use_beam_LUT = 1
        codes = super().encode(x)
        self.quantizer.use_beam_LUT = 0
        return codes


def _faiss_optimized(dim: int, num_codebooks: int, bits: int) -> FaissCoder:
    rotation = faiss.OPQMatrix(dim, num_codebooks)
    shape = faiss.ProductQuantizer(dim, num_codebooks, bits)
    rotation.pq = shape
    coder = FaissCoder(faiss.ProductQuantizer(dim, num_codebooks, bits), rotation)
    coder.held = shape  # FAISS only points to it
    return coder


def _faiss_residual(dim: int, num_codebooks: int, bits: int) -> FaissCoder:
    quantizer = faiss.ResidualQuantizer(dim, num_codebooks, bits)
    quantizer.max_beam_size = 5
    return FaissCoder(quantizer)


PEERS: dict[str, Callable[[int, int, int], FaissCoder]] = {
    "ProductQuantizer": lambda *sizes: FaissCoder(faiss.ProductQuantizer(*sizes)),
    "OPQMatrix": _faiss_optimized,
    "ResidualQuantizer": _faiss_residual,
    "LocalSearchQuantizer": lambda *s: FaissCoder(faiss.LocalSearchQuantizer(*s)),
}
"""FAISS's quantizers with its own defaults; the beam, 5, is its default too."""

PEER_OF: dict[type[Quantizer], str] = {
    ProductQuantizer: "ProductQuantizer",
    OptimizedProductQuantizer: "OPQMatrix",
    ResidualQuantizer: "ResidualQuantizer",
    GeneralizedResidualQuantizer: "ResidualQuantizer",
    AdditiveQuantizer: "LocalSearchQuantizer",
}

ADDITIVE = (ResidualQuantizer, GeneralizedResidualQuantizer, AdditiveQuantizer)

LABELS = {kind: name.upper() for name, kind in QUANTIZERS.items()}

Kind = TypeVar("Kind", bound=Quantizer)

Rows = Callable[[Setting, Vectors], Iterator[Row]]

_ours: dict[tuple[object, ...], Any] = {}


def ours(kind: type[Kind], vectors: Vectors, num_codebooks: int, words: int) -> Kind:
    """Our quantizer of a kind, with its defaults, fitted to the training rows."""
    key = kind, vectors, num_codebooks, words
    if key not in _ours:
        with _said(f"{LABELS[kind]} {num_codebooks} x {words} on {vectors}"):
            quantizer = kind(vectors.dim, num_codebooks, words)
            _ours[key] = quantizer.fit(vectors.train)
    fitted: Kind = _ours[key]
    return fitted


@functools.cache
def theirs(name: str, vectors: Vectors, num_codebooks: int, words: int) -> FaissCoder:
    """FAISS's quantizer of a name, fitted to the training rows."""
    coder = PEERS[name](vectors.dim, num_codebooks, bits_of(words))
    with _said(f"FAISS {name} {num_codebooks} x {words} on {vectors}"):
        return coder.train(vectors.train.numpy())


def copied(product: ProductQuantizer, rotation: Tensor | None = None) -> FaissCoder:
    """FAISS's product quantizer with our codebooks, and our rotation (dim, dim)."""
    bits = bits_of(product.codebook_size)
    twin = faiss.ProductQuantizer(product.dim, product.num_codebooks, bits)
    faiss.copy_array_to_vector(product.codebooks.numpy().ravel(), twin.centroids)
    if rotation is None:
        return FaissCoder(twin)
    turn = faiss.LinearTransform(product.dim, product.dim, False)
    faiss.copy_array_to_vector(rotation.T.contiguous().numpy().ravel(), turn.A)
    turn.is_trained = True
    turn.set_is_orthonormal()
    return FaissCoder(twin, turn)


def copied_sum(ours: SummedQuantizer) -> FaissCoder:
    """FAISS's residual quantizer with our codebooks."""
    sizes = ours.dim, ours.num_codebooks, bits_of(ours.codebook_size)
    twin = _faiss_residual(*sizes)
    faiss.copy_array_to_vector(ours.codebooks.numpy().ravel(), twin.quantizer.codebooks)
    twin.quantizer.is_trained = True
    return twin


def error(coder: Coder, x: Tensor) -> float:
    """Mean squared distance of the rows of x (n, dim) to their reconstruction."""
    total = 0.0
    for rows in x.split(CHUNK_ROWS):
        offset = rows - coder.decode(coder.encode(rows))
        total += float(offset.double().square().sum())
    return total / len(x)


def on_all(
    setting: Setting, product: Rows, rotated: Rows, additive: Rows
) -> Iterator[Row]:
    """Rows of each family on the vectors it can be fitted to in a reasonable time."""
    yield from on_each(setting, (mnist, embeddings), product)
    yield from on_each(setting, (mnist_part, embeddings_part), rotated)
    yield from on_each(setting, (mnist_part, embeddings_part), additive)


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Says on stderr what is being fitted, and how much of the processor it took."""
    say(f"fitting {what} …")
    started = time.process_time()
    yield
    say(f"fitted {what} in {time.process_time() - started:.1f} s")

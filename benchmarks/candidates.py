"""Speed of the candidates: the nearest codewords of a batch, beside FAISS's search."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import faiss
from torch import Tensor

from benchmarks import fits
from benchmarks.report import Bar, Row, faster, skipped
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting, Vectors, gaussian, headed, on_each
from gradsnap.coders.quantizers import Candidates, ProductQuantizer
from gradsnap.coders.quantizers import candidates as routines

NEIGHBORS = 150
BATCH = 128
REPEATS = 60
BAR = Bar("≥", 1.0, goal=3.0)


def run(setting: Setting) -> Iterator[Row]:
    """From vectors to candidates, whole calls."""
    yield from on_each(setting, (headed, gaussian), _measured)


def _measured(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    quantizer = fits.ours(ProductQuantizer, vectors, 4, setting.words)
    x = vectors.held_out[:BATCH]
    peer = multi_index(quantizer)
    calls = {
        "theirs": lambda: peer.search(x.numpy(), NEIGHBORS),
        "compiled kernel": lambda: quantizer.candidates(x, NEIGHBORS),
        "plain torch": lambda: plain_torch(quantizer, x),
    }
    size = f"{BATCH} rows, 4 x {setting.words}, T = {NEIGHBORS}, {vectors.dim}-d"
    if not has_kernel():
        del calls["compiled kernel"]
        yield skipped(f"{size}, compiled kernel", "numba is not installed")
    best = best_interleaved(calls, setting.repeats(REPEATS))
    theirs = best.pop("theirs")
    for name, ours in best.items():
        yield faster(f"{size}, {vectors.name}: {name}", ours, theirs, BAR)


def has_kernel() -> bool:
    """Whether the compiled kernel is there to be used."""
    return find_spec("numba") is not None


def plain_torch(quantizer: ProductQuantizer, x: Tensor) -> Candidates:
    """The candidates as a machine without the compiled kernel finds them."""
    return routines.folded_sums(quantizer.tables(x).entries, NEIGHBORS)


def multi_index(product: ProductQuantizer) -> Any:
    """FAISS's multi-index quantizer with our codebooks."""
    bits = product.codebook_size.bit_length() - 1
    peer = faiss.MultiIndexQuantizer(product.dim, product.num_codebooks, bits)
    words = product.codebooks.numpy().ravel()
    faiss.copy_array_to_vector(words, peer.pq.centroids)
    peer.is_trained = True
    return peer

"""Quantization error of each method, fitted by us and by FAISS to the same rows."""

from collections.abc import Iterator

from benchmarks import fits
from benchmarks.report import Bar, Row, compared
from benchmarks.vectors import (
    Setting,
    Vectors,
    embeddings,
    embeddings_part,
    mnist,
    mnist_part,
    on_each,
)
from gradsnap.coders.quantizers import (
    AdditiveQuantizer,
    GeneralizedResidualQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    Quantizer,
    ResidualQuantizer,
)

BARS: dict[type[Quantizer], Bar] = {
    ProductQuantizer: Bar("≤", 1.01),
    OptimizedProductQuantizer: Bar("≤", 1.01),
    ResidualQuantizer: Bar("≤", 1.0),
    GeneralizedResidualQuantizer: Bar("≤", 1.0),
    AdditiveQuantizer: Bar("≤", 1.0),
}
ADDITIVE = (ResidualQuantizer, GeneralizedResidualQuantizer, AdditiveQuantizer)


def run(setting: Setting) -> Iterator[Row]:
    """Codes of 32 bits; additive ones of 64 bits too in a full run."""
    yield from on_each(setting, (mnist, embeddings), _product)
    yield from on_each(setting, (mnist_part, embeddings_part), _rotated)
    yield from on_each(setting, (mnist_part, embeddings_part), _additive)


def _product(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    yield from _against_faiss(ProductQuantizer, setting, vectors, 4)


def _rotated(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    yield from _against_faiss(OptimizedProductQuantizer, setting, vectors, 4)


def _additive(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    for num_codebooks in setting.codebooks:
        for kind in ADDITIVE:
            yield from _against_faiss(kind, setting, vectors, num_codebooks)
        yield from _generalized_below(setting, vectors, num_codebooks)


def _against_faiss(
    kind: type[Quantizer], setting: Setting, vectors: Vectors, num_codebooks: int
) -> Iterator[Row]:
    name = fits.PEER_OF[kind]
    coder = fits.ours(kind, vectors, num_codebooks, setting.words)
    peer = fits.theirs(name, vectors, num_codebooks, setting.words)
    what = f"{fits.LABELS[kind]} / FAISS {name}, {num_codebooks} x {setting.words}"
    yield from beside(f"{what}, {vectors}", coder, peer, BARS[kind], vectors)


def _generalized_below(
    setting: Setting, vectors: Vectors, num_codebooks: int
) -> Iterator[Row]:
    better, start = (
        fits.ours(kind, vectors, num_codebooks, setting.words)
        for kind in (GeneralizedResidualQuantizer, ResidualQuantizer)
    )
    what = f"GRVQ / RVQ (ours), {num_codebooks} x {setting.words}, {vectors}"
    yield from beside(what, better, start, Bar("<", 1.0), vectors)


def beside(
    what: str, coder: fits.Coder, other: fits.Coder, bar: Bar, vectors: Vectors
) -> Iterator[Row]:
    """Errors of two coders on the training rows, then on the held-out rows.

    The bar is on the training rows; a ratio above one on the held-out rows beside a
    lower one there says that ours fits its training rows more closely, not better.
    """
    for rows, limit in ((vectors.train, bar), (vectors.held_out, None)):
        ours, theirs = (fits.error(one, rows) for one in (coder, other))
        part = "" if rows is vectors.train else ": held out"
        yield compared(what + part, ours, theirs, bar=limit)

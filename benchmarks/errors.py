"""Quantization error of each method, fitted by us and by FAISS to the same rows."""

from collections.abc import Iterator

from benchmarks import fits
from benchmarks.report import Bar, Row, compared, noted
from benchmarks.vectors import (
    Setting,
    Vectors,
    embeddings,
    embeddings_part,
    mnist,
    mnist_part,
    on_each,
)
from gradsnap.quantizers import (
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
CODEBOOKS = (4, 8)


def run(setting: Setting) -> Iterator[Row]:
    """Product codes of 32 bits, additive codes of 32 and 64 bits."""
    yield from on_each(setting, (mnist, embeddings), _product)
    yield from on_each(setting, (mnist_part, embeddings_part), _rotated)
    yield from on_each(setting, (mnist_part, embeddings_part), _additive)


def _product(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    yield _against_faiss(ProductQuantizer, setting, vectors, 4)


def _rotated(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    yield _against_faiss(OptimizedProductQuantizer, setting, vectors, 4)


def _additive(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    for num_codebooks in CODEBOOKS:
        for kind in ADDITIVE:
            yield _against_faiss(kind, setting, vectors, num_codebooks)
        yield _generalized_below(setting, vectors, num_codebooks)


def _against_faiss(
    kind: type[Quantizer], setting: Setting, vectors: Vectors, num_codebooks: int
) -> Row:
    name = fits.PEER_OF[kind]
    coder = fits.ours(kind, vectors, num_codebooks, setting.words)
    peer = fits.theirs(name, vectors, num_codebooks, setting.words)
    what = f"{fits.LABELS[kind]} / FAISS {name}, {num_codebooks} x {setting.words}"
    return beside(f"{what}, {vectors}", coder, peer, BARS[kind], vectors)


def _generalized_below(setting: Setting, vectors: Vectors, num_codebooks: int) -> Row:
    better, start = (
        fits.ours(kind, vectors, num_codebooks, setting.words)
        for kind in (GeneralizedResidualQuantizer, ResidualQuantizer)
    )
    what = f"GRVQ / RVQ (ours), {num_codebooks} x {setting.words}, {vectors}"
    return beside(what, better, start, Bar("<", 1.0), vectors)


def beside(
    what: str, coder: fits.Coder, other: fits.Coder, bar: Bar, vectors: Vectors
) -> Row:
    """Errors of two coders on the training rows, and in the note on the held-out."""
    ours, theirs = (fits.error(one, vectors.train) for one in (coder, other))
    held = [fits.error(one, vectors.held_out) for one in (coder, other)]
    note = f"held out: {held[0]:.4g} / {held[1]:.4g} = {held[0] / held[1]:.3f}"
    return noted(compared(what, ours, theirs, bar=bar), note)

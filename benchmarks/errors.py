"""Quantization error of each method, fitted by us and by FAISS to the same rows."""

from collections.abc import Iterator

from benchmarks import fits
from benchmarks.report import Bar, Row, compared
from benchmarks.vectors import Setting, Vectors
from gradsnap.coders.quantizers import QUANTIZERS, Quantizer

PRODUCT_BAR, ADDITIVE_BAR = Bar("≤", 1.01), Bar("≤", 1.0)


def run(setting: Setting) -> Iterator[Row]:
    """Codes of 32 bits; additive ones of 64 bits too in a full run."""
    yield from fits.on_all(setting, _product, _rotated, _additive)


def _product(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    yield from _against_faiss(QUANTIZERS["pq"], setting, vectors, 4)


def _rotated(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    yield from _against_faiss(QUANTIZERS["opq"], setting, vectors, 4)


def _additive(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    for num_codebooks in setting.codebooks:
        for kind in fits.ADDITIVE:
            yield from _against_faiss(kind, setting, vectors, num_codebooks)
        yield from _generalized_below(setting, vectors, num_codebooks)


def _against_faiss(
    kind: type[Quantizer], setting: Setting, vectors: Vectors, num_codebooks: int
) -> Iterator[Row]:
    name = fits.PEER_OF[kind]
    coder = fits.ours(kind, vectors, num_codebooks, setting.words)
    peer = fits.theirs(name, vectors, num_codebooks, setting.words)
    what = f"{fits.LABELS[kind]} / FAISS {name}, {num_codebooks} x {setting.words}"
    bar = ADDITIVE_BAR if kind in fits.ADDITIVE else PRODUCT_BAR
    yield from beside(f"{what}, {vectors}", coder, peer, bar, vectors)


def _generalized_below(
    setting: Setting, vectors: Vectors, num_codebooks: int
) -> Iterator[Row]:
    better, start = (
        fits.ours(QUANTIZERS[kind], vectors, num_codebooks, setting.words)
        for kind in ("grvq", "rvq")
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

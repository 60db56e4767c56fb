"""Encoding throughput beside FAISS, with the errors of both."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from benchmarks import fits
from benchmarks.report import Bar, Row, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting, Vectors
from gradsnap.coders.quantizers import (
    OptimizedProductQuantizer,
    ProductQuantizer,
    ResidualQuantizer,
)
from gradsnap.coders.quantizers.summed import SummedQuantizer

ROWS = 5_000
PRODUCT_BAR, ADDITIVE_BAR = Bar("≥", 1.0), Bar("≥", 1.0, goal=2)
CODEBOOKS = (4, 8)
MORE_ERROR = 1.001
"""Codes that err more than this times the peer's are not the same work."""


def run(setting: Setting) -> Iterator[Row]:
    """Training rows to codes, since the bars on errors are on training rows too."""
    yield from fits.on_all(setting, _product, _rotated, _additive)


def _product(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    coder = fits.ours(ProductQuantizer, vectors, 4, setting.words)
    what = f"PQ 4 x {setting.words}, same codebooks"
    yield _Pair(coder, fits.copied(coder), vectors, setting).row(what, PRODUCT_BAR)


def _rotated(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    coder = fits.ours(OptimizedProductQuantizer, vectors, 4, setting.words)
    twin = fits.copied(coder.inner, coder.rotation)
    what = f"OPQ 4 x {setting.words}, same codebooks"
    yield _Pair(coder, twin, vectors, setting).row(what, PRODUCT_BAR)


def _additive(setting: Setting, vectors: Vectors) -> Iterator[Row]:
    for num_codebooks in CODEBOOKS:
        for kind in fits.ADDITIVE:
            if num_codebooks > 4 and kind is not ResidualQuantizer:
                continue  # their fits take minutes, and say nothing new
            coder = fits.ours(kind, vectors, num_codebooks, setting.words)
            what = f"{fits.LABELS[kind]} {num_codebooks} x {setting.words}"
            name, peer = _peer(coder, vectors)
            yield _Pair(coder, peer, vectors, setting).row(
                f"{what} / FAISS {name}", ADDITIVE_BAR
            )


def _peer(coder: SummedQuantizer, vectors: Vectors) -> tuple[str, fits.FaissCoder]:
    """FAISS's fastest way to the same codes; of LSQ, which has another, its own fit."""
    name = fits.PEER_OF[type(coder)]
    if name == "ResidualQuantizer":
        twin = fits.LookUpCoder(fits.copied_sum(coder))
        return f"{name} with look-up tables, same codebooks", twin
    return name, fits.theirs(name, vectors, coder.num_codebooks, coder.codebook_size)


class _Pair(NamedTuple):
    """Two coders of the same vectors."""

    coder: fits.Coder
    peer: fits.Coder
    vectors: Vectors
    setting: Setting

    def row(self, what: str, bar: Bar) -> Row:
        """Rows per second of both, with both errors."""
        say(f"encoding: {what}, {self.vectors} …")
        x = self.vectors.train[: self.setting.rows(ROWS)]
        calls = {
            "ours": lambda: self.coder.encode(x),
            "theirs": lambda: self.peer.encode(x),
        }
        best = best_interleaved(calls, self.setting.repeats(3))
        ours, theirs = self._errors(x)
        held = self._errors(self.vectors.held_out[:ROWS])
        return Row(
            f"{what}, {self.vectors}",
            len(x) / best["ours"],
            len(x) / best["theirs"],
            "rows/s",
            best["theirs"] / best["ours"],
            bar,
            fair=ours <= theirs * MORE_ERROR,
            note=f"error {ours:.4g} / {theirs:.4g}, "
            f"held out {held[0]:.4g} / {held[1]:.4g}",
        )

    def _errors(self, x: Tensor) -> tuple[float, float]:
        return fits.error(self.coder, x), fits.error(self.peer, x)

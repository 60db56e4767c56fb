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
    Quantizer,
)

ROWS = 5_000
PRODUCT_BAR, ADDITIVE_BAR = Bar("≥", 1.0), Bar("≥", 0.5)
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
    for num_codebooks in setting.codebooks:
        for kind in fits.ADDITIVE:
            coder = fits.ours(kind, vectors, num_codebooks, setting.words)
            what = f"{fits.LABELS[kind]} {num_codebooks} x {setting.words}"
            for name, peer in _peers(kind, setting, vectors, num_codebooks):
                pair = _Pair(coder, peer, vectors, setting)
                yield pair.row(f"{what} / {name}", ADDITIVE_BAR)


def _peers(
    kind: type[Quantizer], setting: Setting, vectors: Vectors, num_codebooks: int
) -> Iterator[tuple[str, fits.FaissCoder]]:
    name = fits.PEER_OF[kind]
    peer = fits.theirs(name, vectors, num_codebooks, setting.words)
    yield f"FAISS {name}", peer
    if name == "ResidualQuantizer":
        yield f"FAISS {name} with look-up tables", fits.LookUpCoder(peer)


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

"""Errors of the additive family on held-out rows beside FAISS's, cell by cell.

A cell takes minutes. It is kept beside the computed vectors, under the version of FAISS
and the text of our quantizers, so that a run that was stopped goes on where it was.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss

from benchmarks import fits
from benchmarks.report import Bar, Row, say, skipped
from benchmarks.vectors import (
    MissingData,
    Setting,
    Vectors,
    cache_folder,
    embeddings,
    mnist,
)
from gradsnap.coders import quantizers
from gradsnap.coders.quantizers import Quantizer
from gradsnap.files import replacing

BAR = Bar("≤", 1.0, goal=0.97)
DATA: dict[str, Callable[[Setting, int], Vectors]] = {
    "CNN embeddings": embeddings,
    "MNIST": mnist,
}
ROWS = (10_000, 30_000)
CODEBOOKS = (4, 8)


def run(setting: Setting) -> Iterator[Row]:
    """Both data sets, 10,000 and 30,000 rows, 32 and 64 bits, RVQ, GRVQ and AQ."""
    for name, load in DATA.items():
        for num_codebooks, rows in itertools.product(CODEBOOKS, ROWS):
            try:
                vectors = load(setting, rows)
            except MissingData as missing:
                yield skipped(f"all rows on {name}", missing)
                break
            for kind in fits.ADDITIVE:
                yield _row(setting, vectors, kind, num_codebooks)


def _row(
    setting: Setting, vectors: Vectors, kind: type[Quantizer], num_codebooks: int
) -> Row:
    bits = num_codebooks * (setting.words - 1).bit_length()
    what = f"{fits.LABELS[kind]}, {bits} bits, {vectors}"
    fitted = vectors, num_codebooks, setting.words
    ours = _kept(
        f"{what}, ours {_text_of_quantizers()}",
        lambda: _errors(fits.ours(kind, *fitted), vectors),
    )
    peer = fits.PEER_OF[kind]
    theirs = _kept(
        f"FAISS {faiss.__version__} {peer}, {bits} bits, {vectors}",
        lambda: _errors(fits.theirs(peer, *fitted), vectors),
    )
    ratio, learned = (
        ours[part] / theirs[part] for part in ("held out", "training rows")
    )
    return Row(
        what,
        ours["held out"],
        theirs["held out"],
        "",
        ratio,
        BAR,
        note=f"training rows {learned:.3f}",
    )


def _errors(coder: fits.Coder, vectors: Vectors) -> dict[str, float]:
    """Errors on the rows it was fitted to, and on held-out rows."""
    return {
        "training rows": fits.error(coder, vectors.train),
        "held out": fits.error(coder, vectors.held_out),
    }


def _kept(name: str, measure: Callable[[], dict[str, float]]) -> dict[str, Any]:
    """What was measured under a name before, or is now."""
    path = cache_folder() / "held-out" / f"{name.replace('/', ' ')}.json"
    if not path.is_file():
        measured = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(measured))
    say(name)
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def _text_of_quantizers() -> str:
    """A digest of the source of our quantizers: other code, other figures."""
    folder = Path(quantizers.__path__[0])
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return hashlib.sha256(text).hexdigest()[:8]

"""Building an index: encode and add 1 M vectors of 192 dimensions, beside FAISS."""

from collections.abc import Iterator

import faiss
from torch import Tensor

from benchmarks import databases
from benchmarks.databases import threads
from benchmarks.report import Bar, Row, faster, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from gradsnap.coders.quantizers import ProductQuantizer
from gradsnap.index import ExhaustiveIndex

BAR = Bar("≥", 1.0)


def run(setting: Setting) -> Iterator[Row]:
    """Same codebooks, fitted before."""
    x = databases.database(setting)
    for num_codebooks in (4, 8):
        quantizer = databases.fitted(num_codebooks, 256)
        for used in (1, 2):
            what = f"{len(x):,} x 192-d, PQ {num_codebooks} x 256, {used} threads"
            say(f"building: {what} …")
            with threads(used):
                yield _row(setting, what, quantizer, x)


def _row(setting: Setting, what: str, quantizer: ProductQuantizer, x: Tensor) -> Row:
    rows = x.numpy()

    def ours() -> object:
        return ExhaustiveIndex(quantizer).add(x)

    def theirs() -> object:
        index = databases.faiss_pq(quantizer, quantizer.encode(x[:1]))
        index.reset()
        index.add(rows)
        return faiss.downcast_index(index)

    best = best_interleaved({"ours": ours, "theirs": theirs}, setting.repeats(2))
    return faster(what, best["ours"], best["theirs"], BAR)

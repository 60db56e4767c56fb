"""Vectors without labels: neighbours kept by learned codes, beside FAISS's quantizers.

Recall@10 of the true neighbours, of queries that nothing was fitted to, among the rows
that everything was fitted to; all distances are asymmetric. FAISS's quantizers have its
own defaults and see the vectors as they are; ours are what ``gradsnap train`` leaves.
Without labels it takes few large codebooks, so FAISS's residual quantizer is also
measured with the same ones: what learning adds, and what the layout does.
Figures are kept in ``~/.cache/gradsnap/neighbors``: a run takes minutes, and some hours
all of them.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import gradsnap as gs
from benchmarks.report import Bar, Row, say, skipped
from benchmarks.study_cells import read_digits, read_tiny_imagenet
from benchmarks.vectors import MissingData, Setting, mnist
from gradsnap.data import RowProtocol, Split
from gradsnap.evaluation import EmbeddingDistances, nearest_items, recall_at
from gradsnap.files import write_text
from gradsnap.training import make_config, run_training

CACHE = Path.home() / ".cache" / "gradsnap" / "neighbors"
SEEDS = (0, 1, 2)
SAME_LAYOUT = 32
"""Bits at which FAISS is asked for our layout too: with more it takes an hour."""
MNIST_ROWS = 20_000
POINTS = (10, 100)
BAR = Bar("≥", 1.1)

Rows = NDArray[np.float32]
Figures = dict[str, float]


def _digits(setting: Setting) -> Rows:
    return read_digits(setting).vectors


def _mnist(setting: Setting) -> Rows:
    return mnist(setting, MNIST_ROWS).train.numpy()


def _tiny_imagenet(setting: Setting) -> Rows:
    return read_tiny_imagenet(setting).vectors


@dataclass(frozen=True)
class Source:
    """Vectors in a file, made once."""

    name: str
    read: Callable[[Setting], Rows]

    def file(self, setting: Setting) -> Path:
        """The vectors as a file.

        Raises:
            MissingData: what it is made of is not there.
        """
        path = CACHE / f"{self.name.replace(' ', '-')}.npy"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, self.read(setting))
        return path


SOURCES = (
    Source("digits pixels", _digits),
    Source("tiny-ImageNet outputs", _tiny_imagenet),
    Source("MNIST pixels", _mnist),
)


def run(setting: Setting) -> Iterator[Row]:
    """Ours beside the best of FAISS's four, 32 and 64 bits; three splits in full."""
    for source in SOURCES[:1] if setting.quick else SOURCES:
        try:
            path = source.file(setting)
        except MissingData as missing:
            yield skipped(f"all rows on {source.name}", missing)
            continue
        for bits in (16,) if setting.quick else (32, 64):
            yield from _measured(source.name, path, bits, setting)


def _measured(name: str, path: Path, bits: int, setting: Setting) -> Iterator[Row]:
    """Rows of one data set at one length."""
    vectors = np.load(path, mmap_mode="r")
    seeds = SEEDS if setting.full else SEEDS[:1]
    ours, theirs, alike = [], [], []
    for seed in seeds:
        rows = Divided(path, RowProtocol().split(len(vectors), seed))
        theirs.append(_faiss_figures(rows, bits, setting))
        say(f"neighbors: {name}, {bits} bits, seed {seed}, ours …")
        ours.append(_our_figures(rows, bits, seed, setting))
        if bits == SAME_LAYOUT:
            layout = int(ours[-1]["codebooks"]), int(ours[-1]["bits_of_each"])
            alike.append(rows.recalls("RQ", *layout))
    kinds = theirs[0].keys()
    for k in POINTS:
        mine = fmean(one[f"code_recall_at_{k}"] for one in ours)
        rivals = {
            kind: fmean(one[kind][f"recall_at_{k}"] for one in theirs) for kind in kinds
        }
        best = max(rivals.values())
        shown = ", ".join(f"{kind} {value:.4f}" for kind, value in rivals.items())
        fitted = fmean(one["fitted"] for one in ours)
        note = f"FAISS {shown}; splits: {len(seeds)}"
        if k == POINTS[0]:
            note += f"; validation, ours only fitted {fitted:.4f}"
        bar = BAR if k == POINTS[0] and not setting.quick else None
        what = f"{name} ({len(vectors):,} x {vectors.shape[1]}), {bits} bits: "
        yield Row(f"{what}recall@{k}", mine, best, "", mine / best, bar, note=note)
        if alike:
            same = fmean(one[f"recall_at_{k}"] for one in alike)
            about = f"FAISS RQ, {layout[0]} codebooks of {2 ** layout[1]:,} words"
            what = f"{what}recall@{k}, the same layout"
            yield Row(what, mine, same, "", mine / same, note=about)


@dataclass(frozen=True)
class Divided:
    """The vectors of a file, and what of them asks and is searched."""

    path: Path
    split: Split

    def recalls(self, kind: str, codebooks: int, bits_of_each: int) -> Figures:
        """Recall of one of FAISS's quantizers, fitted to the database."""

        def measured() -> Figures:
            vectors = torch.from_numpy(np.load(self.path))
            parts = vectors[self.split.queries], vectors[self.split.database]
            exact = nearest_items(EmbeddingDistances(*parts), POINTS[-1])
            layout = codebooks, bits_of_each
            return _recalls(*_reconstructed(kind, *layout, *parts), exact)

        return self.kept(f"{kind}-{codebooks}x{bits_of_each}", measured)

    def kept(self, what: str, measure: Callable[[], Figures]) -> Figures:
        """Figures from their file, or measured."""
        path = CACHE / f"{self.path.stem}-{self.split.hash}-{what}.json"
        if not path.is_file():
            say(f"neighbors: {path.stem} …")
            write_text(path, json.dumps(measure()))
        figures: Figures = json.loads(path.read_text("utf-8"))
        return figures


def _our_figures(rows: Divided, bits: int, seed: int, setting: Setting) -> Figures:
    """What a run says of its codes on the test queries, and of fitted ones."""
    words = [f"data.source={rows.path}", f"coder.bits={bits}"]
    words += [f"data.split_seed={seed}", f"run.seed={seed}"]
    if setting.quick:
        return _trained([*words, "run.steps=5"])
    return rows.kept(f"ours-{gs.__version__}-{bits}", lambda: _trained(words))


def _trained(words: list[str]) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        model = run_training(make_config({}, words), Path(folder) / "model")
    if model is None:
        raise RuntimeError("a benchmark runs in one process, not in several")
    by_source, coder = model.card["validation_by_source"], model.coder
    figures: Figures = model.card["figures"] | {
        "fitted": max(by_source["train"], by_source["database"]),
        "codebooks": coder.num_codebooks,
        "bits_of_each": coder.codebook_size.bit_length() - 1,
    }
    return figures


def _faiss_figures(rows: Divided, bits: int, setting: Setting) -> dict[str, Figures]:
    """Recall of each of FAISS's quantizers with codebooks of 256 words."""
    kinds = ("PQ",) if setting.quick else ("PQ", "OPQ", "RQ", "LSQ")
    return {kind: rows.recalls(kind, bits // 8, 8) for kind in kinds}


def _reconstructed(
    kind: str, codebooks: int, bits_of_each: int, queries: Tensor, database: Tensor
) -> tuple[Tensor, Tensor]:
    """Queries, rotated where the quantizer rotates, and what codes say of the rows."""
    import faiss

    faiss.omp_set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dim = database.shape[1]
    kinds: dict[str, Any] = {
        "PQ": faiss.ProductQuantizer,
        "OPQ": faiss.ProductQuantizer,
        "RQ": faiss.ResidualQuantizer,
        "LSQ": faiss.LocalSearchQuantizer,
    }
    asked, rows = queries.numpy(), database.numpy()
    if kind == "OPQ":
        rotation = faiss.OPQMatrix(dim, codebooks)
        rotation.train(rows)
        asked, rows = rotation.apply(asked), rotation.apply(rows)
    quantizer = kinds[kind](dim, codebooks, bits_of_each)
    quantizer.train(rows)
    said = quantizer.decode(quantizer.compute_codes(rows))
    return torch.from_numpy(asked), torch.from_numpy(said)


def _recalls(queries: Tensor, said: Tensor, exact: Tensor) -> Figures:
    found = nearest_items(EmbeddingDistances(queries, said), POINTS[-1])
    return {f"recall_at_{k}": recall_at(found, exact[:, :k], k) for k in POINTS}

"""Vectors without labels: neighbours kept by learned codes, beside FAISS's quantizers.

Recall@10 of the true neighbours, of queries that nothing was fitted to, among the rows
that everything was fitted to; all distances are asymmetric. FAISS's quantizers have its
own defaults and see the vectors as they are; ours are what ``gradsnap train`` leaves.
Fits of FAISS are kept in ``~/.cache/gradsnap/neighbors``: they take most of the time.
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

from benchmarks.report import Bar, Row, say, skipped
from benchmarks.study_cells import read_digits, read_tiny_imagenet
from benchmarks.vectors import MissingData, Setting, mnist
from gradsnap.data import RowProtocol, Split
from gradsnap.evaluation import EmbeddingDistances, nearest_items, recall_at
from gradsnap.files import write_text
from gradsnap.training import make_config, run_training

CACHE = Path.home() / ".cache" / "gradsnap" / "neighbors"
SEEDS = (0, 1, 2)
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
    ours, theirs = [], []
    for seed in seeds:
        split = RowProtocol().split(len(vectors), seed)
        theirs.append(_faiss_figures(path, split, bits, setting))
        say(f"neighbors: {name}, {bits} bits, seed {seed}, ours …")
        ours.append(_our_figures(path, bits, seed, setting))
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


def _our_figures(path: Path, bits: int, seed: int, setting: Setting) -> Figures:
    """What a run says of its codes on the test queries, and of fitted ones."""
    words = [f"data.source={path}", f"coder.bits={bits}", f"data.split_seed={seed}"]
    words += [f"run.seed={seed}", *(["run.steps=5"] if setting.quick else [])]
    with tempfile.TemporaryDirectory() as folder:
        model = run_training(make_config({}, words), Path(folder) / "model")
    if model is None:
        raise RuntimeError("a benchmark runs in one process, not in several")
    by_source = model.card["validation_by_source"]
    fitted = max(by_source["train"], by_source["database"])
    figures: dict[str, float] = model.card["figures"] | {"fitted": fitted}
    return figures


def _faiss_figures(
    path: Path, split: Split, bits: int, setting: Setting
) -> dict[str, Figures]:
    """Recall of each of FAISS's quantizers, fitted to the database; kept in files."""
    vectors = torch.from_numpy(np.load(path))
    queries, database = vectors[split.queries], vectors[split.database]
    exact = nearest_items(EmbeddingDistances(queries, database), POINTS[-1])
    found = {}
    for kind in ("PQ",) if setting.quick else ("PQ", "OPQ", "RQ", "LSQ"):
        kept = CACHE / f"{path.stem}-{split.hash}-{bits}-{kind}.json"
        if not kept.is_file():
            say(f"neighbors: {path.stem}, {bits} bits, split {split.hash}, {kind} …")
            figures = _recalls(*_reconstructed(kind, bits, queries, database), exact)
            write_text(kept, json.dumps(figures))
        found[kind] = json.loads(kept.read_text("utf-8"))
    return found


def _reconstructed(
    kind: str, bits: int, queries: Tensor, database: Tensor
) -> tuple[Tensor, Tensor]:
    """Queries, rotated where the quantizer rotates, and what codes say of the rows."""
    import faiss

    faiss.omp_set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dim, bytes_ = database.shape[1], bits // 8
    kinds: dict[str, Any] = {
        "PQ": faiss.ProductQuantizer,
        "OPQ": faiss.ProductQuantizer,
        "RQ": faiss.ResidualQuantizer,
        "LSQ": faiss.LocalSearchQuantizer,
    }
    asked, rows = queries.numpy(), database.numpy()
    if kind == "OPQ":
        rotation = faiss.OPQMatrix(dim, bytes_)
        rotation.train(rows)
        asked, rows = rotation.apply(asked), rotation.apply(rows)
    quantizer = kinds[kind](dim, bytes_, 8)
    quantizer.train(rows)
    said = quantizer.decode(quantizer.compute_codes(rows))
    return torch.from_numpy(asked), torch.from_numpy(said)


def _recalls(queries: Tensor, said: Tensor, exact: Tensor) -> Figures:
    found = nearest_items(EmbeddingDistances(queries, said), POINTS[-1])
    return {f"recall_at_{k}": recall_at(found, exact[:, :k], k) for k in POINTS}

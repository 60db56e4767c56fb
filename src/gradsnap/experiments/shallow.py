"""Coders on fixed vectors: nothing is trained but the coder itself."""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.coders import CODERS, Coder
from gradsnap.data import Split, open_vectors
from gradsnap.errors import InputError
from gradsnap.evaluation import (
    Distances,
    EmbeddingDistances,
    RankingRules,
    code_distances,
    evaluate,
)
from gradsnap.experiments.bench import Bench
from gradsnap.experiments.cache import Record, placeless
from gradsnap.experiments.runs import POINTS, Measures
from gradsnap.registry import options_of

FIT_ROWS = 10_000
"""Rows of the database that a coder without labels is fitted to, at most."""

L2 = "l2"
"""In place of a coder: the vectors themselves."""

SETTINGS: dict[str, Record] = {
    "sdh": {"num_anchors": 3000},
    "fasthash": {"trees": 100},
}
"""Of the paper's table 1, where a coder's own defaults are others; the trees of
FastHash are half of its paper's, for time."""

EASY: Record = {"iterations": 4, "num_anchors": 40, "trees": 4, "projected_dim": 8}
"""Options that make a fit short, for quick runs."""


def shallow_figures(
    bench: Bench,
    file: Path,
    kind: str,
    bits: int,
    seed: int,
    measures: Measures | None = None,
) -> Record:
    """How a coder's codes of vectors rank, from the cache where it was measured before.

    Args:
        bench: what all share.
        file: the vectors, labelled.
        kind: a key of ``CODERS``, or ``L2``.
        bits: length of a code.
        seed: of the split and the coder.
        measures: of the ranking.

    Returns:
        ``code_map``, ``precisions`` at the points, ``seconds``.
    """
    measures = measures or Measures()
    split = bench.split(seed)
    coded = kind != L2
    options = coder_options(bench, kind, len(split.train)) if coded else {}
    size = bench.codebook_size(kind, bits) if coded else None
    about = {
        "version": gs.__version__,
        "coder": kind,
        "options": options,
        "bits": bits,
        "codebook_size": size,
        "seed": seed,
        "vectors": placeless(str(file)),
        "split": split.hash,
        "fit_rows": FIT_ROWS,
        "length": measures.length,
    }
    cell = _Cell(file, kind, bits, size, split, options, seed)
    rules = measures.rules(bench.base.data.protocol)
    return bench.cache.figures(about, lambda: cell.measured(rules))


def shallow_over_seeds(
    bench: Bench,
    files: Sequence[Path],
    kind: str,
    bits: int,
    measures: Measures | None = None,
) -> Generator[str, None, list[Record]]:
    """The figures of all seeds, each on its file; yields a sentence after each."""
    found = []
    for seed, file in enumerate(files):
        one = shallow_figures(bench, file, kind, bits, seed, measures)
        found.append(one)
        yield (
            f"{kind} on {file.stem}, {bits} bits, seed {seed}: MAP "
            f"{one['code_map']:.3f} ({one['seconds']:.0f} s)"
        )
    return found


def coder_options(bench: Bench, kind: str, rows: int) -> Record:
    """The paper's settings of a coder, no more anchors than training rows."""
    wanted = SETTINGS.get(kind, {}) | (EASY if bench.quick else {})
    known = options_of(CODERS[kind])
    options = {name: one for name, one in wanted.items() if name in known}
    if "num_anchors" in options:
        options["num_anchors"] = min(options["num_anchors"], rows)
    return options


@dataclass(frozen=True)
class _Cell:
    """One coder, fitted to one split of one file."""

    file: Path
    kind: str
    bits: int
    size: int | None
    split: Split
    options: Record
    seed: int

    def measured(self, rules: RankingRules) -> Record:
        """The figures, as plain values."""
        started = time.perf_counter()
        dataset = open_vectors(self.file)
        split, labels = self.split, dataset.labels
        if labels is None:
            raise InputError(f"{self.file} has no labels")
        rows = dataset.items.batch(split.database)
        queries = dataset.items.batch(split.queries)
        train = dataset.items.batch(split.train)
        table = self.table(queries, rows, train, labels[split.train])
        points = [n for n in POINTS if n <= rules.cut(len(rows))]
        asked = labels[split.queries], labels[split.database]
        found = evaluate(table, *asked, rules, points=points)
        return {
            "code_map": found.map,
            "points": points,
            "precisions": list(found.precision),
            "seconds": time.perf_counter() - started,
        }

    def table(
        self, queries: Tensor, rows: Tensor, train: Tensor, labels: Tensor
    ) -> Distances:
        """What the queries are ranked by."""
        if self.kind == L2:
            return EmbeddingDistances(queries, rows)
        coder = self.coder(rows.shape[1])
        if coder.supervised:
            coder.fit(train, labels)
        else:
            generator = torch.Generator().manual_seed(self.seed)
            drawn = torch.randperm(len(rows), generator=generator)[:FIT_ROWS]
            coder.fit(rows[drawn])
        return code_distances(coder, queries, coder.encode(rows))

    def coder(self, dim: int) -> Coder:
        """The unfitted coder."""
        own = {"seed": self.seed} | self.options
        return CODERS[self.kind].of_bits(dim, self.bits, self.size, **own)

"""Digits learned from pairs, clicks or triplets, beside labels, on the same queries.

The tables are made from the labels of the training images; MAP by labels, over queries
that no run has seen, says how much of what labels know got through.
"""

import csv
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from benchmarks.report import Row
from benchmarks.vectors import Setting
from gradsnap.data import Split, open_digits
from gradsnap.training import make_config, run_training
from gradsnap.training.by_labels import ByLabels
from gradsnap.training.config import DataSettings

SEEDS = (0, 1, 2)
STEPS = 600
RANDOM_PAIRS, PARTNERS, TRIPLETS = 20_000, 3, 5
COMMON = ("data.source=digits", "network.name=mlp")
RECIPES = {
    "16 bits, snapping": ("coder.bits=16", "method.name=snapping"),
    "4 bits, through codes": (
        "coder.bits=4",
        "coder.codebook_size=4",
        "method.name=codes",
        "optimizer.rate=0.003",
    ),
}

Table = Iterable[tuple[object, ...]]


def run(setting: Setting) -> Iterator[Row]:
    """MAP of codes and floats, mean over seeds, for each kind of knowledge."""
    dataset = open_digits()
    if dataset.labels is None:
        raise ValueError("digits have labels")
    known = ByLabels(dataset, dataset.labels, "fraction")
    split = known.split(DataSettings())
    steps, seeds = (20, SEEDS[:1]) if setting.quick else (STEPS, SEEDS)
    for recipe, words in RECIPES.items():
        for kind in ("labels", *TABLES):
            found = [
                _figures(known, split, kind, (*words, f"run.steps={steps}"), seed)
                for seed in seeds
            ]
            codes, floats = (fmean(one[name] for one in found) for name in FIGURES)
            note = f"floats {floats:.4f}; {len(seeds)} seeds"
            yield Row(f"{recipe}, from {kind}: MAP of codes", codes, note=note)


FIGURES = ("code_map", "float_map")


def _figures(
    known: ByLabels, split: Split, kind: str, words: tuple[str, ...], seed: int
) -> dict[str, float]:
    """Trains, and ranks the database for the queries by labels."""
    dataset = known.dataset
    with tempfile.TemporaryDirectory() as name:
        own = [*COMMON, *words, f"run.seed={seed}"]
        if kind in TABLES:
            path = Path(name) / "table.csv"
            table, generator = TABLES[kind], Generator().manual_seed(seed)
            rows = table.rows(known.every_label, split.database, generator)
            _write(path, table.header, rows)
            own += [f"data.{table.setting}={path}", *table.more]
        model = run_training(make_config({}, own), Path(name) / "model")
    if model is None:
        raise RuntimeError("a benchmark runs in one process, not in several")
    trained = model

    def embed(indices: Tensor) -> Tensor:
        return trained.embed(dataset, indices=indices)

    return known.score(trained.coder, embed, split.queries, split.database)


def _random_pairs(labels: Tensor, items: Tensor, generator: Generator) -> Table:
    ends = torch.randint(len(items), (2, RANDOM_PAIRS), generator=generator)
    for a, b in items[ends[:, ends[0] != ends[1]]].T.tolist():
        yield a, b, int(labels[a] == labels[b])


def _partners(labels: Tensor, items: Tensor, generator: Generator) -> Table:
    """Of each item some others of its class, and nothing that is unlike."""
    for a in items.tolist():
        alike = items[(labels[items] == labels[a]) & (items != a)]
        yield from ((a, b) for b in _some(alike, PARTNERS, generator))


def _triplets(labels: Tensor, items: Tensor, generator: Generator) -> Table:
    for a in items.tolist():
        alike = items[(labels[items] == labels[a]) & (items != a)]
        unlike = items[labels[items] != labels[a]]
        drawn = (_some(one, TRIPLETS, generator) for one in (alike, unlike))
        yield from ((a, b, c) for b, c in zip(*drawn, strict=True))


class Kind(NamedTuple):
    """One kind of table."""

    header: tuple[str, ...]
    rows: Callable[[Tensor, Tensor, Generator], Table]
    """Of the labels of all items, the items that may be named, and a generator."""
    setting: str = "pairs"
    """Of the section ``data``: what names the table."""
    more: tuple[str, ...] = ()


PAIRS = ("a", "b", "similar")
TABLES = {
    "20,000 random pairs": Kind(PAIRS, _random_pairs),
    "the same, nothing inferred": Kind(
        PAIRS, _random_pairs, more=("data.other_pairs=unknown",)
    ),
    "three partners an item": Kind(("a", "b"), _partners),
    "five triplets an item": Kind(
        ("anchor", "positive", "negative"), _triplets, setting="triplets"
    ),
}
"""Every kind by its name."""


def _some(items: Tensor, count: int, generator: Generator) -> list[int]:
    drawn: list[int] = items[
        torch.randint(len(items), (count,), generator=generator)
    ].tolist()
    return drawn


def _write(path: Path, header: tuple[str, ...], rows: Table) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)

"""Writes one of everything that is kept in files, for ``test_formats.py`` to open.

Run once for each release that writes something new, from the root of the repository:

    python -m tests.write_formats 0.1

Folders of earlier releases stay as they are: they are what must go on opening.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gradsnap as gs
from gradsnap.coders import CODERS
from gradsnap.evaluation import EmbeddingDistances, RankingRules, Run, evaluate
from gradsnap.evaluation.card import ProtocolCard
from gradsnap.index import INDEXES, HammingIndex
from gradsnap.training import run_training
from tests.conftest import classes, fitted, made_coder
from tests.training_runs import clusters, config_for

FORMATS = Path(__file__).parent / "fixtures" / "formats"
ITEMS, QUERIES, NEAREST = 40, 3, 5


def coders_of(folder: Path, x: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    """A file of every coder, and the codes of some rows."""
    codes = {}
    for kind in CODERS:
        coder = made_coder(kind).fit(x, labels)
        coder.save(folder / f"{kind}.safetensors")
        codes[kind] = coder.encode(x[:QUERIES]).tolist()
    return codes


def indexes_of(folder: Path, rows: torch.Tensor) -> dict[str, Any]:
    """A folder of every kind of index: two saves, items gone, metadata, re-ranking."""
    found = {}
    for kind, family in INDEXES.items():
        if family is HammingIndex:
            index: Any = HammingIndex(8)
            rows_of = (rows[:, :8] > 0).to(torch.uint8) @ 2 ** torch.arange(8).byte()
            given = rows_of[:, None].to(torch.uint8)
        else:
            refiner = gs.HalfPrecision(8) if kind == "inverted" else None
            index = family.of_size(fitted("pq"), ITEMS, refiner=refiner).fit(rows)
            given = rows
        names = [f"photos/{place:02}.jpg" for place in range(ITEMS)]
        label = {"label": [("cat", "dog")[place % 2] for place in range(ITEMS)]}
        index.add(given[:30], names[:30], {"label": label["label"][:30]})
        index.save(folder / kind)
        index.add(given[30:], names[30:], {"label": label["label"][30:]})
        index.remove(names[3:6])
        index.save(folder / kind)
        nearest = index.search(given[:QUERIES], NEAREST, where='label = "cat"')
        np.save(folder / f"{kind}.npy", given[:QUERIES].numpy())
        found[kind] = {"ids": nearest.ids, "distances": nearest.distances.tolist()}
    return found


def model_of(folder: Path) -> dict[str, Any]:
    """A model folder with its checkpoint, and what it makes of some rows."""
    os.chdir(folder)  # so that files hold no path of this machine
    source = clusters(Path("vectors.npz"))
    model = run_training(config_for(source), Path("model"))
    if model is None:
        raise SystemExit("the training was not finished")
    rows = torch.from_numpy(np.load(source)["vectors"][:QUERIES]).float()
    return {
        "embeddings": model.embed(rows).tolist(),
        "codes": model.encode(rows).tolist(),
    }


def run_of(path: Path, x: torch.Tensor, labels: torch.Tensor) -> float:
    """The file of an evaluation, and its MAP."""
    rules = RankingRules(None, divisor="relevant", no_hit="zero")
    found = evaluate(EmbeddingDistances(x[:9], x), labels[:9], labels, rules)
    card = ProtocolCard(
        dataset="rows",
        split_hashes=("1",),
        queries=9,
        training=0,
        database=len(x),
        training_in_database=False,
        length=None,
        divisor="relevant",
        no_hit="zero",
    )
    Run("rows", card, (found,)).save(path)
    return found.map


def write(release: str) -> None:
    """Writes the folder of a release."""
    folder = FORMATS / release
    for part in ("coders", "indexes"):
        (folder / part).mkdir(parents=True)
    x, labels = classes(120)
    np.save(folder / "rows.npy", x[:QUERIES].numpy())
    rows = torch.randn(ITEMS, 8, generator=torch.Generator().manual_seed(5))
    answers = {
        "coders": coders_of(folder / "coders", x, labels),
        "indexes": indexes_of(folder / "indexes", rows),
        "model": model_of(folder),
        "map": run_of(folder / "run.json", x, labels),
    }
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    write(*sys.argv[1:])

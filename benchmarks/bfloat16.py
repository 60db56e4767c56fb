"""Photos embedded in bfloat16 beside single precision: how fast, and what codes find.

EfficientNet-Lite0 at 224 px through OpenVINO, photos of tiny-ImageNet, in seconds of
one core from files to embeddings. Recall is of the ten nearest by single precision,
for queries in single precision, as a search embeds them, among codes of 32 and 64 bits
whose codebooks were fitted in single precision.
"""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

import gradsnap as gs
from benchmarks.report import Bar, Row, skipped
from benchmarks.vectors import Setting
from gradsnap.data import Dataset, open_dataset
from gradsnap.errors import InputError
from gradsnap.evaluation import EmbeddingDistances, nearest_items, recall_at
from gradsnap.inference.trunk import Trunk
from gradsnap.networks import build_network

SIDE, DIM, PHOTOS, QUERIES, NEAREST = 224, 64, 1500, 300, 10
ENGINES = ("openvino", "openvino-bf16")


def run(setting: Setting) -> Iterator[Row]:
    """Images a second, then recall, each beside that of single precision."""
    folder = None if setting.data is None else setting.data / "tiny-imagenet-100"
    if folder is None or not folder.is_dir():
        yield skipped("bfloat16", "no tiny-imagenet-100 in the data folder (--data)")
        return
    try:
        made = _embedded(
            open_dataset(str(folder / "train"), side=SIDE, channels=3), setting
        )
    except InputError as error:
        yield skipped("bfloat16", error)
        return
    rates, (exact, brief) = [rate for rate, _ in made], [rows for _, rows in made]
    bar = Bar("≥", 1.5, goal=2)
    what = "photos to embeddings, bfloat16 over single precision"
    yield Row(what, rates[1], rates[0], "images a second", rates[1] / rates[0], bar)
    exact, brief = _projected(exact, exact), _projected(brief, exact)
    for bits in (32, 64):
        coder = gs.ProductQuantizer(DIM, bits // 8, 256).fit(exact)
        found = [_recall(coder, exact, items) for items in (exact, brief)]
        ratio = found[1] / found[0]
        same = (coder.encode(exact) == coder.encode(brief)).float().mean()
        note = f"{float(same):.3f} of the codewords are the same"
        what = f"recall@{NEAREST} by codes of {bits} bits"
        yield Row(what, found[1], found[0], "", ratio, Bar("≥", 0.99), note=note)


def _embedded(photos: Dataset, setting: Setting) -> list[tuple[float, Tensor]]:
    """Images a second of one core, and outputs (n, 1280), by each engine."""
    generator = torch.Generator().manual_seed(0)
    count = 600 if setting.quick else PHOTOS
    chosen = torch.randperm(len(photos), generator=generator)[:count]
    trunk = Trunk(build_network("efficientnet-lite0", side=SIDE).eval())
    made = []
    for engine in ENGINES:
        gs.embed(trunk, photos, chosen[:2], engine=engine)  # to read and compile once
        started = time.process_time()
        rows = gs.embed(trunk, photos, chosen, engine=engine)
        made.append((count / (time.process_time() - started), rows))
    return made


def _projected(outputs: Tensor, fitted_to: Tensor) -> Tensor:
    """Outputs of length 1 on the first principal axes of others: (n, DIM)."""
    known = functional.normalize(fitted_to)
    mean = known.mean(dim=0)
    axes = torch.linalg.svd(known - mean, full_matrices=False).Vh[:DIM].T
    projected: Tensor = (functional.normalize(outputs) - mean) @ axes
    return projected


def _recall(coder: gs.ProductQuantizer, exact: Tensor, items: Tensor) -> float:
    """Of the nearest by exact embeddings (n, DIM), found by codes of items (n, DIM)."""
    queries, database = exact[:QUERIES], items[QUERIES:]
    true = nearest_items(EmbeddingDistances(queries, exact[QUERIES:]), NEAREST)
    index = gs.ExhaustiveIndex(coder)
    index.add(database)
    return recall_at(index.search(queries, k=NEAREST).ids, true, NEAREST)

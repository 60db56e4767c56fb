"""What the layer costs: a training step with it, over the same step without it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import gradsnap as gs
from benchmarks.report import Bar, Row, compared, noted, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import (
    WEIGHTS,
    MissingData,
    Setting,
    cifar_images,
    load_features,
    prepared,
)
from gradsnap.networks import AlexNet

DIM, BATCH, NEIGHBORS, CLASSES = 192, 128, 150, 10
IMAGE_PIXELS = 128
POOL = 1024
"""Rows the quantizer is fitted to before the first step."""

WIDE = 200.0
"""A margin by which clusters are not apart, so that every row has a gradient."""

RATE = 1e-6
"""So small that all steps are taken at nearly the same weights."""


def run(setting: Setting) -> Iterator[Row]:
    """AlexNet, then a linear head on ready vectors."""
    torch.manual_seed(0)
    yield from _alexnet(setting)
    yield from _linear_head(setting)


@dataclass
class Job:
    """A network in training, and the batch every step is taken on."""

    network: nn.Module
    inputs: Tensor
    labels: Tensor
    snap: gs.GradientSnapping
    margin: float = 1.0

    def __post_init__(self) -> None:
        self.criterion = gs.TripletLoss(margin=self.margin)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=RATE, momentum=0.9
        )

    def step(self, layer: nn.Module) -> Tensor:
        """Forward, loss, backward, step; returns the embeddings (n, dim)."""
        embeddings: Tensor = self.network(self.inputs)
        loss = self.criterion(layer(embeddings), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return embeddings.detach()

    def times(self, repeats: int) -> dict[str, float]:
        """Seconds of a step without the layer, with it, and with an update too."""
        plain = nn.Identity()
        calls = {
            "without": lambda: self.step(plain),
            "without, again": lambda: self.step(plain),
            "layer": lambda: self.step(self.snap),
            "layer and update": lambda: self._step_and_update(),
        }
        return best_interleaved(calls, repeats)

    def _step_and_update(self) -> None:
        self.snap.quantizer.update(self.step(self.snap))


def _alexnet(setting: Setting) -> Iterator[Row]:
    pool = setting.rows(POOL)
    network = AlexNet(DIM)
    try:
        load_features(network, setting.file(WEIGHTS))
        pictures, labels = cifar_images(setting, pool)
        note = "CIFAR-10 images enlarged, conv1 to conv5 pretrained"
    except MissingData as missing:
        generator = torch.Generator().manual_seed(0)
        pictures = torch.randint(0, 256, (pool, 3, 32, 32), generator=generator)
        labels = torch.arange(pool) % CLASSES
        note = f"made-up images: {missing}"
    batch = 16 if setting.quick else BATCH
    say(f"AlexNet at {IMAGE_PIXELS} px: embedding {pool:,} images …")
    snap = _fitted_layer(network, prepared(pictures, IMAGE_PIXELS), setting.words)
    inputs = prepared(pictures[:batch], IMAGE_PIXELS)
    job = Job(network, inputs, labels[:batch], snap)
    say("AlexNet: timing steps …")
    what = f"AlexNet, {IMAGE_PIXELS} px, batch {batch}"
    times = job.times(setting.repeats(6))
    yield from (
        noted(row, note) for row in _rows(what, times, ("layer", Bar("≤", 1.03)))
    )


def _linear_head(setting: Setting) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(8 * POOL) % CLASSES
    centres = torch.randn(CLASSES, 1280, generator=generator)
    x = centres[labels] + torch.randn(len(labels), 1280, generator=generator)
    network = nn.Linear(1280, DIM)
    snap = _fitted_layer(network, x, setting.words)
    job = Job(network, x[:BATCH], labels[:BATCH], snap, margin=WIDE)
    what = f"linear head 1280 → {DIM}, batch {BATCH}"
    times = job.times(setting.repeats(100))
    note = "made-up vectors in ten clusters, every row with a gradient"
    asked = "layer and update", Bar("≤", 1.3, goal=1.1)
    yield from (noted(row, note) for row in _rows(what, times, asked))


def _rows(what: str, times: dict[str, float], asked: tuple[str, Bar]) -> Iterator[Row]:
    """The step with the layer, and with an update too; the bar is on one of them.

    "Without, again" is the same step timed as if it were another: how far its ratio is
    from one is how far the others can be trusted.
    """
    for name in ("layer", "layer and update", "without, again"):
        limit = asked[1] if name == asked[0] else None
        ours, theirs = times[name] * 1e3, times["without"] * 1e3
        yield compared(f"{what}: {name} / without", ours, theirs, "ms", limit)


@torch.no_grad()
def _fitted_layer(network: nn.Module, pool: Tensor, words: int) -> gs.GradientSnapping:
    network.eval()
    embeddings = torch.cat([network(part) for part in pool.split(BATCH)])
    network.train()
    quantizer = gs.ProductQuantizer(DIM, num_codebooks=4, codebook_size=words)
    return gs.GradientSnapping(quantizer.fit(embeddings), NEIGHBORS)

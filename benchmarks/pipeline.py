"""The input pipeline: how much of a training step is the network's own time.

CIFAR-10 at 128 px through AlexNet, augmented by the paper's projective transformations
and flips: reading, augmenting, resizing and normalizing against the rest of the step.
"""

import time
from collections.abc import Iterator

import torch

from benchmarks.report import Bar, Row, noted, skipped
from benchmarks.vectors import Setting
from gradsnap.training import make_config
from gradsnap.training.defaults import settled
from gradsnap.training.feed import Feed
from gradsnap.training.learner import new_learner, new_network
from gradsnap.training.processes import Processes

STEPS = 8


def run(setting: Setting) -> Iterator[Row]:
    """The share of the network, over some steps after two to warm up."""
    if setting.data is None or not (setting.data / "cifar-10-batches-bin").is_dir():
        yield skipped("CIFAR-10", "no cifar-10-batches-bin in the data folder")
        return
    root = setting.data / "cifar-10-batches-bin"
    config = make_config(
        {
            "data": {
                "source": "cifar10",
                "root": str(root),
                "augment": ["projective", "flip"],
            },
            "network": {
                "name": "alexnet",
                "options": {"side": 128, "head": [512]},
            },
            "run": {"batch_size": 16 if setting.quick else 128},
        }
    )
    config, dataset, split, supervision = settled(config)
    network = new_network(config.network, 0)
    device = torch.device("cpu")
    learner = new_learner(config, supervision.num_classes, network, device)
    prepare = network.preprocess
    feed = Feed(dataset, split, supervision, prepare, config, device, Processes())
    waited, worked = 0.0, 0.0
    started = time.perf_counter()
    for step, batch in enumerate(feed.batches(0, setting.repeats(STEPS) + 2)):
        ready = time.perf_counter()
        learner.optimizer.zero_grad()
        embeddings = network(batch.inputs)
        learner.method.similarity_loss(
            embeddings, embeddings, batch.target, None
        ).backward()
        learner.optimizer.step()
        done = time.perf_counter()
        if step >= 2:
            waited, worked = waited + ready - started, worked + done - ready
        started = done
    share = worked / (worked + waited)
    row = Row("the network's share of a step", ours=share, bar=Bar("≥", 0.95))
    count = setting.repeats(STEPS)
    each = f"{1e3 * waited / count:.0f} ms of {1e3 * (waited + worked) / count:.0f} ms"
    yield noted(row, f"input {each} a step, in the same process")

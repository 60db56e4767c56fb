"""What is learned: MNIST, CIFAR-10, and adapters on ready features.

Every task is run with and without snapping, each at its own best learning rate; see
``benchmarks.learning``.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.learning import CACHE, LearningRow, Tables, Task, compared
from benchmarks.report import Row
from benchmarks.vectors import Setting
from gradsnap.triplets import TRIPLETS

MNIST = Task(
    name="mnist",
    needs=("MNIST",),
    settings={
        "data": {"source": "mnist", "root": "{data}/MNIST", "augment": ["projective"]},
        "run": {"steps": 400, "validate_every": 100, "checkpoint_every": 400},
    },
    bits=(24, 32, 48),
    seeds=2,
    bars={24: 0.973, 32: 0.980, 48: 0.981},
)

CIFAR10 = Task(
    name="cifar10",
    needs=("cifar-10-batches-bin", "alexnet_features.pth"),
    settings={
        "data": {
            "source": "cifar10",
            "root": "{data}/cifar-10-batches-bin",
            "augment": ["projective", "flip"],
        },
        "network": {
            "name": "alexnet",
            "options": {
                "side": 96,
                "head": [512],
                "weights": "{data}/alexnet_features.pth",
            },
        },
        "optimizer": {"trunk_rate": 1e-4, "layer_decay": 0.9},
        "run": {
            "steps": 500,
            "batch_size": 64,
            "validate_every": 125,
            "checkpoint_every": 50,
        },
    },
    rates=(3e-4, 1e-3),
    seeds=1,  # an hour on two cores is enough for no more
)

SEEN: Tables = {"data": {"protocol": "fraction"}}
UNSEEN: Tables = {
    "data": {
        "protocol": "unseen",
        "protocol_options": {"seen": 0.5, "queries_per_class": 20},
        "validation": 0.25,
    },
}

DIGITS = Task(
    name="digits adapter",
    needs=(),
    settings={
        "data": {"source": str(CACHE.parent / "digits.npz")},
        "network": {"dim": 32, "options": {"hidden": [128]}},
        "run": {"steps": 400, "validate_every": 100, "checkpoint_every": 400},
    },
    bits=(16,),
)

TINY_IMAGENET = Task(
    name="tiny-imagenet adapter",
    needs=("tiny-imagenet-100",),
    settings={
        "data": {
            "source": "{data}/tiny-imagenet-100/train",
            "cache": str(CACHE.parent / "trunks"),
        },
        "network": {
            "name": "efficientnet-lite0",
            "dim": 64,
            "options": {"side": 128},
            "trainable_blocks": 0,
            "engine": "openvino",
        },
        "run": {
            "steps": 1000,
            "batch_size": 256,
            "items_per_class": 8,
            "validate_every": 200,
            "checkpoint_every": 1000,
        },
    },
)


def mnist(setting: Setting) -> Iterator[LearningRow | Row]:
    """The paper's protocol with the small network, 24 to 48 bits."""
    yield from compared(MNIST, setting)


def cifar10(setting: Setting) -> Iterator[LearningRow | Row]:
    """The paper's protocol with AlexNet, its convolutions trained on ImageNet."""
    yield from compared(CIFAR10, setting)


def adapters(setting: Setting) -> Iterator[LearningRow | Row]:
    """Heads on pixels and on EfficientNet-Lite0's features, seen and unseen classes."""
    _write_digits(CACHE.parent / "digits.npz")
    for task in (DIGITS, TINY_IMAGENET):
        yield from compared(_under(task, "seen", SEEN), setting)
        yield from compared(_under(task, "unseen", UNSEEN), setting)


def triplets(setting: Setting) -> Iterator[LearningRow | Row]:
    """Every way of choosing triplets, on the digits and without snapping."""
    _write_digits(CACHE.parent / "digits.npz")
    for choice in TRIPLETS:
        tables = DIGITS.settings | {"loss": {"triplets": choice}}
        task = replace(DIGITS, name=f"digits adapter, {choice}", settings=tables)
        yield from compared(task, setting, layers=("plain",))


def _under(task: Task, name: str, protocol: Tables) -> Task:
    tables = {key: dict(value) for key, value in task.settings.items()}
    tables["data"] |= protocol["data"]
    return replace(task, name=f"{task.name}, {name} classes", settings=tables)


def _write_digits(path: Path) -> None:
    """The digits' pixels as vectors (1797, 64)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels, labels = load_digits(return_X_y=True)
    np.savez(path, vectors=(pixels / 16).astype(np.float32), labels=labels)

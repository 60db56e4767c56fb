"""What the study compares: data, layouts of codebooks, and methods.

All data are vectors in a file: pixels, or the outputs of a frozen network. Each task
is divided by a protocol whose seed is the run's; see ``benchmarks.study``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

import gradsnap as gs
from benchmarks.vectors import MissingData, Setting
from gradsnap.data import Dataset, open_dataset
from gradsnap.experiments.contenders import STRENGTH, Contender
from gradsnap.experiments.layouts import Layout
from gradsnap.files import replacing
from gradsnap.inference.trunk import Trunk
from gradsnap.methods import METHODS as TRAINED
from gradsnap.methods.method import is_scarce
from gradsnap.networks import build_network

ROWS = 16_000
"""Images of CIFAR-10: 1,000 ask, 5,000 train, 10,000 are searched."""

MNIST_ROWS = 6_000
"""Images of MNIST: 500 ask, 2,000 train, 3,500 are searched."""


LAYOUTS = (
    Layout(2, 4),
    Layout(1, 16),
    Layout(2, 16),
    Layout(1, 256),
    Layout(2, 256),
    Layout(4, 256),
    Layout(8, 256),
)
"""Every layout of the study: of equal bits, several small codebooks come first."""


RATES = (0.003, 0.01, 0.03)
"""Learning rates to choose from; the search begins in the middle."""


class Labelled(NamedTuple):
    """Vectors float32 (n, dim) and labels int64 (n,), or bool (n, L)."""

    vectors: NDArray[np.float32]
    labels: NDArray[np.int64] | NDArray[np.bool_]


PQ, OPQ = "coder.kind=pq", "coder.kind=opq"
CODES = ("layer.name=codes", f"{STRENGTH}=0.3")
SOFT = (
    "layer.name=soft-codes",
    "layer.options.temperature=0.03",
    "coder.learn=gradient",
)

METHODS = (
    Contender("plain + PQ", ("layer.name=plain", PQ)),
    Contender("plain + OPQ", ("layer.name=plain", OPQ)),
    Contender(
        "output regularization",
        ("layer.name=output-regularization", PQ),
        STRENGTH,
        (0.1, 1.0),
    ),
    Contender("straight-through", ("layer.name=straight-through", PQ)),
    Contender(
        "soft assignment",
        ("layer.name=soft-assignment", PQ),
        "layer.options.temperature",
        (1.0, 0.1),
    ),
    Contender(
        "straight-through codes, commitment",
        (
            "layer.name=straight-through-codes",
            "loss.mixture=0.0",
            "regularizer.name=quantization",
            PQ,
        ),
        "regularizer.options.strength",
        (0.1, 0.01),
    ),
    Contender("snapping", ("layer.name=snapping", PQ), STRENGTH, (0.3, 1.0)),
    Contender(
        "snapping through codes",
        ("layer.name=codes", "loss.mixture=0.0", PQ),
        STRENGTH,
        (0.3, 0.1),
    ),
    Contender(
        "snapping through codes, mixed", (*CODES, PQ), "loss.mixture", (1.0, 0.3)
    ),
    Contender(
        "snapping through codes, mixed, OPQ",
        (*CODES, OPQ),
        "loss.mixture",
        (1.0, 0.3),
    ),
    Contender("soft codes, mixed, OPQ", (*SOFT, OPQ), "loss.mixture", (1.0, 0.3)),
    Contender("soft codes, mixed", (*SOFT, PQ), "loss.mixture", (1.0, 0.3)),
)
"""Every line of the study; the first is what the others are compared with."""

PLAIN = METHODS[0].name
"""What the others are compared with."""

RECIPE = {
    "opq": (METHODS[-2].name, METHODS[1].name),
    "pq": (METHODS[-1].name, METHODS[0].name),
}
"""What `gradsnap train` does by default and the plain network that it trains beside,
by the coder that it takes."""

SNAPPED = METHODS[7].name
"""What it trains beside where codes are scarce."""

KEPT = "kept by `gradsnap train`"
"""The best of these by the validation part, seed by seed."""


@dataclass(frozen=True)
class Task:
    """Vectors, and how they are divided.

    Args:
        name: shown in the table.
        read: makes the vectors; raises ``MissingData`` where it has nothing to read.
        settings: of every run, by section.
        layouts: to compare the methods at.
    """

    name: str
    read: Callable[[Setting], Labelled]
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    layouts: tuple[Layout, ...] = LAYOUTS
    vectors: str = ""
    """Names the file; another task may have the same."""
    rates: tuple[float, ...] = RATES
    """Learning rates to choose from."""
    classes: int = 10

    @property
    def once_more(self) -> bool:
        """Whether a network is trained once more, on its validation part too.

        As `gradsnap train` does where that part is searched like what trained.
        """
        return self.settings.get("data") == SHARE

    def recipes(self, layout: Layout) -> tuple[str, ...]:
        """What `gradsnap train` chooses from for a layout, its own recipe first."""
        about = layout.bits, layout.codebook_size, self.classes
        own = RECIPE[TRAINED["codes"].coder_for(*about)]
        return (*own, SNAPPED) if is_scarce(*about) else own

    def file(self, setting: Setting, folder: Path) -> Path:
        """The vectors as a file, made if it is not there.

        Raises:
            MissingData: neither the file nor what it is made of is there.
        """
        path = folder / f"{(self.vectors or self.name).replace(' ', '-')}.npz"
        if not path.is_file():
            vectors, labels = self.read(setting)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary, temporary.open("wb") as stream:
                np.savez(stream, vectors=vectors, labels=labels)
        return path


def cells() -> Iterator[tuple[Task, Layout]]:
    """Every cell of the study, in the order they run."""
    for task in TASKS:
        for layout in task.layouts:
            yield task, layout


def read_digits(setting: Setting) -> Labelled:
    """The pixels of scikit-learn's digits (1797, 64)."""
    pixels, labels = load_digits(return_X_y=True)
    return Labelled((pixels / 16).astype(np.float32), labels.astype(np.int64))


def read_mnist(setting: Setting) -> Labelled:
    """The pixels of the first images of MNIST (6000, 784)."""
    dataset = open_dataset("mnist", str(_folder(setting, "MNIST")))
    images, labels = dataset.batch(torch.arange(MNIST_ROWS))
    pixels = images.flatten(1).float() / 255
    return Labelled(pixels.numpy(), labels.numpy())


def read_cifar10(setting: Setting) -> Labelled:
    """Outputs of a frozen EfficientNet-Lite0 for the first images of CIFAR-10."""
    root = _folder(setting, "cifar-10-batches-bin")
    return _outputs(open_dataset("cifar10", str(root)), torch.arange(ROWS))


def read_tiny_imagenet(setting: Setting) -> Labelled:
    """The same outputs for tiny-ImageNet-100."""
    root = _folder(setting, "tiny-imagenet-100") / "train"
    dataset = open_dataset(str(root), side=SIDE, channels=3)
    return _outputs(dataset, torch.arange(len(dataset)))


def read_first_50(setting: Setting) -> Labelled:
    """Those of its first 50 classes."""
    vectors, labels = read_tiny_imagenet(setting)
    first = labels < 50
    return Labelled(vectors[first], labels[first])


def read_every_second(setting: Setting) -> Labelled:
    """Those of every second image: 100 of each of 100 classes."""
    vectors, labels = read_tiny_imagenet(setting)
    return Labelled(vectors[::2], labels[::2])


def read_voc(setting: Setting) -> Labelled:
    """The same outputs for photos of VOC 2007, several labels each."""
    root = _folder(setting, "voc2007-part")
    dataset = open_dataset(str(root), side=SIDE, channels=3)
    return _outputs(dataset, torch.arange(len(dataset)))


SIDE = 128
"""Pixels of a side that the frozen network sees."""


def _outputs(dataset: Dataset, rows: Tensor) -> Labelled:
    network = build_network("efficientnet-lite0", side=SIDE)
    outputs = gs.embed(Trunk(network), dataset, rows, engine="openvino")
    return Labelled(outputs.numpy(), _labels(dataset)[rows].numpy())


def _labels(dataset: Dataset) -> Tensor:
    if dataset.labels is None:
        raise MissingData(f"{dataset.name} has no labels")
    return dataset.labels


def _folder(setting: Setting, name: str) -> Path:
    if setting.data is None or not (setting.data / name).is_dir():
        raise MissingData(f"no {name} in the data folder (--data)")
    return setting.data / name


def _paper(queries: int, training: int, validation: float) -> dict[str, Any]:
    options = {
        "queries_per_class": queries,
        "training_per_class": training,
        "training_in_database": False,
    }
    return {"protocol": "paper", "protocol_options": options, "validation": validation}


PIXELS = {"options": {"hidden": [128]}, "dim": 32}
SHARE = {"protocol": "fraction", "validation": 0.2}
UNSEEN = {
    "protocol": "unseen",
    "protocol_options": {"queries_per_class": 20},
    "validation": 0.2,
}

TASKS = (
    Task(
        "digits",
        read_digits,
        {"data": _paper(20, 50, 0.3), "network": PIXELS},
        (Layout(2, 4), Layout(1, 16), Layout(2, 16), Layout(4, 256)),
    ),
    Task(
        "mnist",
        read_mnist,
        {"data": _paper(50, 200, 0.2), "network": PIXELS},
        (Layout(2, 4), Layout(1, 16), Layout(2, 16)),
    ),
    Task(
        "cifar10 outputs",
        read_cifar10,
        {"data": _paper(100, 500, 0.2)},
        (Layout(2, 4), Layout(2, 16), Layout(4, 256)),
    ),
    Task(
        "voc, several labels",
        read_voc,
        {"data": SHARE},
        (Layout(2, 4), Layout(2, 16)),
        "voc outputs",
        classes=20,
    ),
    Task(
        "tiny-imagenet, 50 classes",
        read_first_50,
        {"data": SHARE},
        (Layout(2, 16), Layout(1, 256)),
        "tiny-imagenet outputs",
        classes=50,
    ),
    Task(
        "tiny-imagenet, unseen classes",
        read_every_second,
        {"data": UNSEEN},
        (Layout(2, 16), Layout(2, 256)),
        "tiny-imagenet-100 half outputs",
        (0.0003, 0.001, 0.003),
        50,  # train, and as many others are searched
    ),
    Task(
        "tiny-imagenet, 100 classes",
        read_every_second,
        {"data": SHARE},
        (Layout(8, 256),),
        "tiny-imagenet-100 half outputs",
        classes=100,
    ),
)
"""Every data set of the study, what runs fastest first."""

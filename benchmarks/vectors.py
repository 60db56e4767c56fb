"""What the benchmarks run on: MNIST pixels, CNN embeddings, and made-up vectors."""

import functools
import gzip
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.report import Row, say, skipped
from gradsnap.files import replacing
from gradsnap.networks import AlexNet, Gist

PIXELS = 96
IMAGENET_MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
IMAGENET_STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
WEIGHTS = "alexnet_features.pth"
CIFAR = tuple(
    f"cifar-10-batches-bin/{name}.bin"
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
)
MNIST = "MNIST/raw/{}-images-idx3-ubyte.gz"


@dataclass(frozen=True)
class Setting:
    """How a benchmark is run.

    Args:
        data: the folder of the data sets, or None.
        quick: tiny sizes, to see that everything runs; the figures mean nothing.
        full: more rows and 64 bits too, where fits take minutes; more than an hour.
    """

    data: Path | None = None
    quick: bool = False
    full: bool = False

    @property
    def words(self) -> int:
        """Codewords in a codebook."""
        return 16 if self.quick else 256

    @property
    def codebooks(self) -> tuple[int, ...]:
        """Numbers of codebooks of the additive family: 32 bits, and 64 in full."""
        return (4, 8) if self.full else (4,)

    def rows(self, count: int) -> int:
        """How many rows to take where ``count`` are asked for."""
        return min(count, 1000) if self.quick else count

    def repeats(self, count: int) -> int:
        """How often to time where ``count`` times are asked for."""
        return min(count, 2) if self.quick else count

    def file(self, name: str) -> Path:
        """A file of the data folder.

        Raises:
            MissingData: it is not there.
        """
        if self.data is None:
            raise MissingData(f"no data folder (--data or GRADSNAP_DATA) for {name}")
        if not (self.data / name).is_file():
            raise MissingData(f"there is no {self.data / name}")
        return self.data / name


class MissingData(Exception):
    """A data set is not in the data folder; its rows are skipped."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Training rows (n, dim) and held-out rows (m, dim) of one data set."""

    name: str
    train: Tensor
    held_out: Tensor

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.train.shape[1]

    def __str__(self) -> str:
        return f"{self.name} ({len(self.train):,} x {self.dim})"


def on_each(
    setting: Setting,
    loaders: tuple[Callable[[Setting], Vectors], ...],
    measure: Callable[[Setting, Vectors], Iterator[Row]],
) -> Iterator[Row]:
    """The rows of a measurement on each set; one row with the reason where absent."""
    for load in loaders:
        try:
            vectors = load(setting)
        except MissingData as missing:
            doc = (load.__doc__ or "").split(".")[0]
            yield skipped(f"all rows on {doc}", missing)
            continue
        yield from measure(setting, vectors)


@functools.cache
def mnist(setting: Setting, count: int = 60_000) -> Vectors:
    """MNIST pixels in 0 to 1, 784-d; the test images are held out."""
    train = _idx_images(setting.file(MNIST.format("train")))
    test = _idx_images(setting.file(MNIST.format("t10k")))
    return Vectors(
        "MNIST", train[: setting.rows(count)], test[: setting.rows(10_000)].clone()
    )


def mnist_part(setting: Setting) -> Vectors:
    """MNIST pixels, the first images only, for what takes minutes on all."""
    return mnist(setting, 20_000 if setting.full else 10_000)


@functools.cache
def embeddings(setting: Setting, count: int = 30_000) -> Vectors:
    """CNN embeddings: AlexNet conv5 of CIFAR-10 images, 256-d; kept in the cache."""
    every, held_out = setting.rows(30_000), setting.rows(5_000)
    rows = cached_embeddings(setting, every + held_out)
    return Vectors("CNN embeddings", rows[: setting.rows(count)], rows[every:])


def embeddings_part(setting: Setting) -> Vectors:
    """CNN embeddings, the first only, for what takes minutes on all."""
    return embeddings(setting, 30_000 if setting.full else 10_000)


@functools.cache
def headed(setting: Setting, dim: int = 192) -> Vectors:
    """CNN embeddings through a random linear head, 192-d."""
    vectors = embeddings(setting)
    generator = torch.Generator().manual_seed(0)
    head = torch.randn(vectors.dim, dim, generator=generator) / vectors.dim**0.5
    return Vectors("CNN embeddings", vectors.train @ head, vectors.held_out @ head)


@functools.cache
def gaussian(setting: Setting, dim: int = 192) -> Vectors:
    """Made-up: independent normal numbers, the worst case for any quantizer."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(setting.rows(30_000) + 1000, dim, generator=generator)
    return Vectors("made-up Gaussian", rows[:-1000], rows[-1000:])


def cifar_images(setting: Setting, count: int) -> tuple[Tensor, Tensor]:
    """The first CIFAR-10 images (n, 3, 32, 32), uint8, and labels (n,).

    The last 10,000 of all 60,000 are the test images.
    """
    records: list[np.ndarray] = []
    for batch in CIFAR:
        if sum(map(len, records)) < count:
            raw = np.fromfile(setting.file(batch), np.uint8)
            records.append(raw.reshape(-1, 3073))
    data = torch.from_numpy(np.concatenate(records)[:count])
    return data[:, 1:].view(-1, 3, 32, 32), data[:, 0].long()


def prepared(images: Tensor, pixels: int) -> Tensor:
    """What AlexNet takes, (n, 3, pixels, pixels), of uint8 images (n, 3, h, w)."""
    size = (pixels, pixels)
    large = functional.interpolate(images.float() / 255, size, mode="bilinear")
    return (large - IMAGENET_MEAN) / IMAGENET_STD


def load_features(network: AlexNet, weights: Path) -> None:
    """Fills conv1 to conv5 from a checkpoint with torchvision's names."""
    state = torch.load(weights, weights_only=True)
    own = {name.removeprefix("features."): value for name, value in state.items()}
    network.features.load_state_dict(own)


def cached_embeddings(setting: Setting, count: int) -> Tensor:
    """AlexNet's conv5 of the first CIFAR-10 images, averaged over places, (n, 256)."""
    weights = setting.file(WEIGHTS)
    setting.file(CIFAR[0])
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:8]
    return _cached(
        f"alexnet-{digest}-cifar10-{PIXELS}px-{count}",
        lambda: _computed_embeddings(setting, weights, count),
    )


def cached_gist(setting: Setting, count: int) -> Tensor:
    """GIST of the first CIFAR-10 images, (n, 512)."""
    setting.file(CIFAR[0])
    return _cached(f"gist-cifar10-{count}", lambda: _computed_gist(setting, count))


def _cached(name: str, compute: Callable[[], Tensor]) -> Tensor:
    path = cache_folder() / f"{name}.npy"
    if not path.is_file():
        rows = compute().numpy()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, rows)
    return torch.from_numpy(np.load(path))


def _computed_gist(setting: Setting, count: int) -> Tensor:
    images, _ = cifar_images(setting, count)
    describe, parts = Gist(), []
    for done, part in enumerate(images.split(5000)):
        say(f"GIST: {done * 5000:,} of {count:,} (once, then cached)")
        parts.append(describe(part))
    return torch.cat(parts)


@torch.no_grad()
def _computed_embeddings(setting: Setting, weights: Path, count: int) -> Tensor:
    network = AlexNet()
    load_features(network, weights)
    features: nn.Module = network.features.eval()
    images, _ = cifar_images(setting, count)
    parts = []
    for done, part in enumerate(images.split(1000)):
        if done % 5 == 0:
            say(f"CNN embeddings: {done * 1000:,} of {count:,} (once, then cached)")
        maps: Tensor = features(prepared(part, PIXELS))  # (n, 256, 2, 2)
        parts.append(maps.mean(dim=(2, 3)))
    return torch.cat(parts)


def cache_folder() -> Path:
    """Where computed vectors are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gradsnap"


def _idx_images(path: Path) -> Tensor:
    with gzip.open(path) as file:
        raw = np.frombuffer(file.read(), np.uint8, offset=16)
    return torch.from_numpy(raw.reshape(-1, 784).astype(np.float32) / 255)

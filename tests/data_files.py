"""Tiny data sets in every layout, and the folder where the real ones lie."""

import csv
import gzip
import io
import os
import pickle
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

CIFAR_BATCHES = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]


def real_data(name: str) -> Path:
    """A folder of the real data; skips the test where it is absent."""
    path = Path(os.environ.get("GRADSNAP_DATA", "")) / name
    if not os.environ.get("GRADSNAP_DATA") or not path.exists():
        pytest.skip(f"GRADSNAP_DATA names no folder with {name}")
    return path


def random_bytes(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def random_vectors(rows: int, dim: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


def write_image(path: Path, width: int = 12, height: int = 10, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(random_bytes(height, width, 3, seed=seed)).save(path)
    return path


def write_folder(root: Path, classes: Sequence[str] = ("cat", "dog")) -> Path:
    for seed, name in enumerate(classes):
        for row in range(3):
            write_image(root / name / f"{row}.png", seed=10 * seed + row)
    return root


def write_idx(path: Path, array: NDArray[np.uint8]) -> Path:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_mnist(root: Path, suffix: str = ".gz") -> Path:
    for part, count in (("train", 20), ("t10k", 10)):
        images = random_bytes(count, 28, 28, seed=count)
        write_idx(root / f"{part}-images-idx3-ubyte{suffix}", images)
        labels = (np.arange(count) % 10).astype(np.uint8)
        write_idx(root / f"{part}-labels-idx1-ubyte{suffix}", labels)
    return root


def cifar_batch(number: int) -> tuple[NDArray[np.uint8], list[int]]:
    return random_bytes(4, 3072, seed=number), [(number + row) % 10 for row in range(4)]


def write_cifar_binary(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(CIFAR_BATCHES):
        pixels, labels = cifar_batch(number)
        records = np.column_stack([np.array(labels, np.uint8), pixels])
        (root / f"{name}.bin").write_bytes(records.tobytes())
    return root


def write_cifar_pickled(root: Path, protocol: int = 2) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(CIFAR_BATCHES):
        pixels, labels = cifar_batch(number)
        content = {b"data": pixels, b"labels": labels, b"batch_label": b"a batch"}
        (root / name).write_bytes(pickle.dumps(content, protocol))
    return root


def write_nuswide(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for part, start, stop in (("train", 0, 6), ("test", 6, 9), ("database", 3, 12)):
        lines = []
        for row in range(start, stop):
            write_image(root / "images" / f"{row}.jpg", seed=row)
            labels = ["1" if (row + label) % 7 == 0 else "0" for label in range(21)]
            lines.append(" ".join([f"images/{row}.jpg", *labels]))
        (root / f"nuswide_21_{part}.txt").write_text("\n".join(lines) + "\n")
    return root


def write_ilsvrc(root: Path) -> Path:
    write_folder(root / "train", ("n01", "n02", "n03"))
    write_folder(root / "val", ("n01", "n02", "n03"))
    return root


def write_csv(root: Path) -> Path:
    rows = [["image", "cat", "dog"], ["0.png", "1", "0"], ["1.png", "1", "1"]]
    for row in range(2):
        write_image(root / "images" / f"{row}.png", seed=row)
    with (root / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return root


def write_vectors(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    np.save(root / "some.npy", random_vectors(7, 5))
    np.save(root / "some.labels.npy", np.arange(7) % 2)
    return root / "some.npy"


def write_shards(root: Path, shards: int = 3, items: int = 4) -> Path:
    """Tar files of images with their classes, as WebDataset writes them."""
    root.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        samples = {
            f"{row:04d}": (png_bytes(row), ("cat", "dog")[row % 2])
            for row in range(shard * items, (shard + 1) * items)
        }
        write_tar(root / f"shard-{shard:05d}.tar", samples)
    return root


def png_bytes(seed: int, width: int = 12, height: int = 10) -> bytes:
    file = io.BytesIO()
    Image.fromarray(random_bytes(height, width, 3, seed=seed)).save(file, "PNG")
    return file.getvalue()


def write_tar(path: Path, samples: Mapping[str, tuple[bytes, str | None]]) -> Path:
    """A tar file of images by key, with a label beside each that has one."""
    with tarfile.open(path, "w") as archive:
        for key, (image, label) in samples.items():
            parts = {"png": image} | ({} if label is None else {"cls": label.encode()})
            for ending, data in parts.items():
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


WRITERS: dict[str, Callable[[Path], Path]] = {
    "digits": lambda root: root,
    "mnist": write_mnist,
    "cifar10": write_cifar_binary,
    "nuswide": write_nuswide,
    "ilsvrc2012": write_ilsvrc,
    "folder": write_folder,
    "csv": write_csv,
    "vectors": write_vectors,
    "sharded": write_shards,
}
"""For every key of DATASETS, what writes a tiny one and returns its root."""

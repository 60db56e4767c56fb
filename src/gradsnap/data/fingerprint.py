"""Tells the items of a data set from others: names, and what lies under them."""

import hashlib
import os

import torch
from torch import Tensor

from gradsnap.data.dataset import Dataset
from gradsnap.data.images import ImageFiles
from gradsnap.data.shards import ShardedDataset

SAMPLE = 16
"""Images that are decoded; of vectors in memory many more cost nothing."""
ROWS = 4096


def items_digest(dataset: Dataset) -> "hashlib._Hash":
    """A digest of the data set's name, size, files and a sample of its items.

    Of image files it takes the name, size and time of all: a photo that was replaced
    under its name makes other data. Of items in memory it takes rows spread over all.
    """
    digest = hashlib.sha256(f"{dataset.name} {len(dataset)}".encode())
    files = dataset.items if isinstance(dataset.items, ImageFiles) else None
    count = min(len(dataset), SAMPLE if dataset.holds_images else ROWS)
    sample = torch.linspace(0, len(dataset) - 1, count).long()
    absorb(digest, dataset.items.batch(sample))
    if isinstance(dataset, ShardedDataset):
        rows = dataset.rows  # what another process has is other data
        digest.update(repr((dataset.first, rows.shards)).encode())
        digest.update(rows.keys.text.tobytes())
        digest.update(rows.places.tobytes())
    if files is not None:
        for name in files.names:
            absorb_file(digest, name, os.fspath(files.root / name))
    return digest


def absorb(digest: "hashlib._Hash", values: Tensor) -> None:
    """Adds the bytes of a tensor."""
    flat = values.detach().cpu().contiguous().flatten()
    digest.update(flat.view(torch.uint8).numpy().data)


def absorb_file(digest: "hashlib._Hash", name: str, path: str) -> None:
    """Adds a file's name, size and time of change."""
    digest.update(name.encode("utf-8", "surrogateescape"))
    known = os.stat(path)
    digest.update(f"\0{known.st_size} {known.st_mtime_ns}\0".encode())

"""A million vectors of real images: MNIST, each image warped a little many times.

The 60,000 training images, each under 17 random projective transformations, then the 64
directions of the largest variance: vectors as a real collection has them, with near
duplicates and uneven density. Queries are warped images of the 10,000 others.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.report import say
from benchmarks.vectors import MissingData, Setting
from gradsnap.data import ProjectiveJitter, open_dataset

DIM = 64
WARPS = 17
STRENGTH = 0.15
AT_ONCE = 2_000
TRAINING = 60_000


class Million(NamedTuple):
    """A database and queries that are not in it."""

    database: Tensor
    """(n, 64)."""
    queries: Tensor
    """(q, 64)."""


class Warps(NamedTuple):
    """Images, and what makes vectors of them."""

    images: Tensor
    """All of MNIST, the training images first."""
    mean: Tensor
    """(784,)."""
    directions: Tensor
    """(784, 64)."""
    generator: torch.Generator

    def rows(self, some: Tensor) -> Tensor:
        """Vectors (n, 64) of images, each warped anew."""
        warped = ProjectiveJitter(STRENGTH)(some / 255, self.generator).flatten(1)
        return (warped - self.mean) @ self.directions

    def blocks(self, rounds: int) -> Iterator[Tensor]:
        """Vectors of the training images, warped so many times, a block at a time."""
        for _ in range(rounds):
            yield from map(self.rows, self.images[:TRAINING].split(AT_ONCE))


def warps(setting: Setting, seed: int = 0) -> Warps:
    """MNIST of the data folder.

    Raises:
        MissingData: there is none.
    """
    if setting.data is None or not (setting.data / "MNIST").is_dir():
        raise MissingData("no MNIST in the data folder")
    dataset = open_dataset("mnist", setting.data / "MNIST")
    images, _ = dataset.batch(torch.arange(len(dataset)))
    own = _principal(images[:TRAINING])
    return Warps(images, *own, torch.Generator().manual_seed(seed))


def million(setting: Setting, queries: int) -> Million:
    """A million vectors, or 20,000 in a quick run.

    Raises:
        MissingData: there is no MNIST in the data folder.
    """
    own = warps(setting)
    say("warping MNIST …")
    parts = list(own.blocks(1 if setting.quick else WARPS))
    database = torch.cat(parts)[
        : setting.rows(1_000_000) * (20 if setting.quick else 1)
    ]
    order = torch.randperm(len(database), generator=own.generator)
    asked = own.images[TRAINING : TRAINING + queries]
    return Million(database[order], own.rows(asked))


def _principal(images: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (784,) and the directions (784, 64) of the largest variance."""
    flat = images.flatten(1) / 255
    mean = flat.mean(dim=0)
    _, directions = torch.linalg.eigh((flat - mean).T @ (flat - mean))
    return mean, directions[:, -DIM:].contiguous()

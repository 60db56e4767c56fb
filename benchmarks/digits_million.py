"""A million vectors of real images: MNIST, each image warped a little many times.

The 60,000 training images, each under 17 random projective transformations, then the 64
directions of the largest variance: vectors as a real collection has them, with near
duplicates and uneven density. Queries are warped images of the 10,000 others.
"""

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


def million(setting: Setting, queries: int) -> Million:
    """A million vectors, or 20,000 in a quick run.

    Raises:
        MissingData: there is no MNIST in the data folder.
    """
    if setting.data is None or not (setting.data / "MNIST").is_dir():
        raise MissingData("no MNIST in the data folder")
    say("warping MNIST …")
    dataset = open_dataset("mnist", setting.data / "MNIST")
    images, _ = dataset.batch(torch.arange(len(dataset)))
    mean, directions = _principal(images[:TRAINING])
    generator = torch.Generator().manual_seed(0)
    jitter = ProjectiveJitter(STRENGTH)

    def rows(some: Tensor) -> Tensor:
        warped = jitter(some / 255, generator).flatten(1)
        return (warped - mean) @ directions

    rounds = 1 if setting.quick else WARPS
    parts = [
        rows(some) for _ in range(rounds) for some in images[:TRAINING].split(AT_ONCE)
    ]
    database = torch.cat(parts)[
        : setting.rows(1_000_000) * (20 if setting.quick else 1)
    ]
    order = torch.randperm(len(database), generator=generator)
    asked = images[TRAINING : TRAINING + queries]
    return Million(database[order], rows(asked))


def _principal(images: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (784,) and the directions (784, 64) of the largest variance."""
    flat = images.flatten(1) / 255
    mean = flat.mean(dim=0)
    _, directions = torch.linalg.eigh((flat - mean).T @ (flat - mean))
    return mean, directions[:, -DIM:].contiguous()

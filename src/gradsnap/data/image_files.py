"""A data set of image files: bad files are refused by name, or skipped and counted."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gradsnap.data.dataset import Dataset
from gradsnap.data.images import ImageFiles, ImageOptions, decode_image
from gradsnap.data.names import Names
from gradsnap.errors import GradsnapError, InputError
from gradsnap.progress import track

logger = logging.getLogger(__name__)

BLOCK = 1024
SHOWN = 3


@dataclass(frozen=True, eq=False)
class Listing:
    """What a layout on disk says: which images there are, and their labels."""

    names: Sequence[str]
    """Paths of the n images below a root, with "/" between folders."""

    labels: Tensor | None
    """int64 (n,), or multi-hot bool (n, L); None where there are no labels."""

    classes: tuple[str, ...]
    """The name of each class, or of each of the L labels."""

    held_out: Tensor | None = None
    """bool (n,): what the publisher set apart for testing."""

    bad: tuple[str, ...] = ()
    """Files that cannot be images, and folders without any."""

    def take(self, indices: Tensor, bad: Sequence[str]) -> "Listing":
        """The images at indices (m,), with more bad files."""
        return Listing(
            Names(self.names[index] for index in indices.tolist()),
            None if self.labels is None else self.labels[indices],
            self.classes,
            None if self.held_out is None else self.held_out[indices],
            (*self.bad, *bad),
        )


def image_dataset(
    name: str, root: Path, listing: Listing, options: ImageOptions
) -> Dataset:
    """The data set of a listing below ``root``.

    With ``options.skip_bad`` every image is decoded once, here, and what fails is left
    out, counted and logged; without it a bad image is named by the error of the batch
    that holds it.

    Raises:
        InputError: there are no images, or bad files and ``skip_bad`` is not given.
    """
    if options.skip_bad:
        listing = _without_broken(root, listing, options)
        if listing.bad:
            count, first = len(listing.bad), _first(listing.bad)
            logger.warning("%s: %d bad files were skipped: %s", name, count, first)
    elif listing.bad:
        raise InputError(
            f"{root} holds {len(listing.bad)} that are not images: "
            f"{_first(listing.bad)}; remove them, or give skip_bad to leave them out"
        )
    if not len(listing.names):
        raise InputError(f"{root} holds no images that can be read")
    names = Names(listing.names)
    return Dataset(
        name=name,
        items=ImageFiles(root, names, options),
        names=names,
        labels=listing.labels,
        classes=listing.classes,
        held_out=listing.held_out,
        skipped=listing.bad,
    )


def check_present(root: Path, names: Sequence[str], options: ImageOptions) -> None:
    """Refuses a list that names missing files, unless they are to be skipped."""
    if options.skip_bad:
        return
    missing = [name for name in names if not (root / name).is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(names)} listed images are not in {root}: "
            f"{_first(missing)}; give skip_bad to leave them out"
        )


def _without_broken(root: Path, listing: Listing, options: ImageOptions) -> Listing:
    """Decodes all images, a block at a time, in threads (decoding frees Python)."""

    def decodes(name: str) -> bool:
        try:
            decode_image(root / name, options)
        except GradsnapError:
            return False
        return True

    fine: list[bool] = []
    starts = range(0, len(listing.names), BLOCK)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in track(starts, f"checking the images of {root}"):
            fine += pool.map(decodes, listing.names[start : start + BLOCK])
    good = torch.tensor(fine, dtype=torch.bool)
    broken = [listing.names[index] for index in (~good).nonzero().flatten().tolist()]
    return listing.take(good.nonzero().flatten(), broken)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")

"""Images as uint8 tensors, in memory or decoded from files; bad files by name."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional

from gradsnap.data.dataset import Dataset
from gradsnap.errors import FileFormatError, GradsnapError, InputError
from gradsnap.progress import track
from gradsnap.strings import PackedStrings

logger = logging.getLogger(__name__)

BLOCK = 1024
SHOWN = 3

GREY_WEIGHTS = (19595, 38470, 7471)
"""Red, green and blue in 65536ths (ITU-R 601), as pillow's own grey."""


@dataclass(frozen=True)
class ImageOptions:
    """How images are read."""

    side: int | None = None
    """Resize to side × side pixels; None keeps each image's own size."""

    channels: int | None = None
    """3 for colour, 1 for grey; None keeps stored images, and reads files as colour."""

    skip_bad: bool = False
    """Decode every file once when opening, and leave out and count the bad ones."""

    def __post_init__(self) -> None:
        if self.side is not None and self.side < 1:
            raise InputError(f"side must be at least 1, got {self.side}")
        if self.channels not in (None, 1, 3):
            raise InputError(f"channels must be 1 or 3, got {self.channels}")

    def reading(self, side: int | None, channels: int | None) -> "ImageOptions":
        """These options with another side or number of channels, where given."""
        return replace(
            self,
            side=self.side if side is None else side,
            channels=self.channels if channels is None else channels,
        )


def decode_image(
    path: str | os.PathLike[str], options: ImageOptions | None = None
) -> Tensor:
    """The pixels of an image file, uint8 (channels, height, width).

    A photograph is turned upright as its camera noted; 16-bit grey becomes 8-bit.

    Raises:
        InputError: there is no such file.
        FileFormatError: it is empty, truncated or not an image.
    """
    options = options or ImageOptions()
    mode = "L" if options.channels == 1 else "RGB"
    try:
        with Image.open(path) as image:
            pixels = np.array(_prepared(image, mode, options.side))
    except FileNotFoundError as error:
        raise InputError(f"there is no image {os.fspath(path)}") from error
    except Exception as error:  # a corrupt file makes a decoder raise nearly anything
        raise FileFormatError(
            f"{os.fspath(path)} cannot be decoded as an image "
            f"({type(error).__name__}: {error})"
        ) from error
    return torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1)  # (c, h, w)


def _prepared(image: Image.Image, mode: str, side: int | None) -> Image.Image:
    if side is not None:
        image.draft(
            mode, (side, side)
        )  # a JPEG file decodes straight to a smaller size
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):
        sixteen = np.asarray(upright).clip(0, 65535)
        upright = Image.fromarray((sixteen // 256).astype(np.uint8))
    converted = upright.convert(mode)
    if side is None:
        return converted
    return converted.resize((side, side), Image.Resampling.BILINEAR)


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Images decoded from their files when they are asked for."""

    root: Path
    """The folder that names are relative to."""

    names: PackedStrings
    """Paths of the n images."""

    options: ImageOptions
    """How they are read."""

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, indices: Tensor) -> Tensor:
        """The images at indices (b,), uint8 (b, channels, height, width)."""
        paths = [self.root / self.names[index] for index in indices.tolist()]
        images = [decode_image(path, self.options) for path in paths]
        for path, image in zip(paths, images, strict=True):
            if image.shape != images[0].shape:
                raise InputError(
                    f"{paths[0]} and {path} have the shapes {tuple(images[0].shape)} "
                    f"and {tuple(image.shape)}; give a side to resize all images to"
                )
        return torch.stack(images)

    def reading(self, side: int | None, channels: int | None) -> "ImageFiles":
        """The same images at another size; nothing is decoded yet."""
        return replace(self, options=self.options.reading(side, channels))


@dataclass(frozen=True, eq=False)
class StoredImages:
    """Images that lie in memory."""

    pixels: Tensor
    """uint8 (n, channels, height, width)."""

    options: ImageOptions
    """How they are read."""

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, indices: Tensor) -> Tensor:
        """The images at indices (b,), uint8 (b, channels, height, width)."""
        images = _with_channels(self.pixels[indices], self.options.channels)
        side = self.options.side
        if side is None or images.shape[2:] == (side, side):
            return images
        return functional.interpolate(
            images, size=(side, side), mode="bilinear", antialias=True
        )

    def reading(self, side: int | None, channels: int | None) -> "StoredImages":
        """The same images at another size; nothing is decoded yet."""
        return replace(self, options=self.options.reading(side, channels))


def _with_channels(images: Tensor, channels: int | None) -> Tensor:
    if channels is None or images.shape[1] == channels:
        return images
    if channels == 3:
        return images.expand(-1, 3, -1, -1)
    weights = torch.tensor(GREY_WEIGHTS, dtype=torch.int32).view(1, 3, 1, 1)
    grey = (images.int() * weights).sum(dim=1, keepdim=True)  # (b, 1, h, w)
    return (grey + 2**15 >> 16).to(torch.uint8)


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
            PackedStrings.of(self.names[index] for index in indices.tolist()),
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
            count, first = len(listing.bad), first_few(listing.bad)
            logger.warning("%s: %d bad files were skipped: %s", name, count, first)
    elif listing.bad:
        raise InputError(
            f"{root} holds {len(listing.bad)} that are not images: "
            f"{first_few(listing.bad)}; remove them, or give skip_bad to leave them out"
        )
    if not len(listing.names):
        raise InputError(f"{root} holds no images that can be read")
    names = PackedStrings.of(listing.names)
    return Dataset(
        name=name,
        items=ImageFiles(root, names, options),
        names=names,
        labels=listing.labels,
        classes=listing.classes,
        held_out=listing.held_out,
        skipped=listing.bad,
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


def first_few(names: Sequence[str]) -> str:
    """The first names of a list, for a message."""
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")

"""Images as uint8 tensors: decoding files, resizing, grey and colour."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional

from gradsnap.data.names import Names
from gradsnap.errors import FileFormatError, InputError

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

    names: Names
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


def _with_channels(images: Tensor, channels: int | None) -> Tensor:
    if channels is None or images.shape[1] == channels:
        return images
    if channels == 3:
        return images.expand(-1, 3, -1, -1)
    weights = torch.tensor(GREY_WEIGHTS, dtype=torch.int32).view(1, 3, 1, 1)
    grey = (images.int() * weights).sum(dim=1, keepdim=True)  # (b, 1, h, w)
    return (grey + 2**15 >> 16).to(torch.uint8)

"""Images as uint8 tensors: decoding files, resizing, grey and colour."""

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.nn import functional

from gradsnap.compiled import on_threads, spread
from gradsnap.data.resizing import pixels_of, prepare, resized
from gradsnap.errors import FileFormatError, InputError
from gradsnap.strings import PackedStrings

FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),  # and MPO, which some cameras write
    "PNG": (".png",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "PPM": (".pgm", ".ppm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "AVIF": (".avif",),
    "HEIF": (".heic", ".heif"),
}
"""Pillow's name of each format of images, and how their files end.

Pillow reads many more and goes by a file's content. Among them is EPS, a program that
it hands to Ghostscript to run, so no other format is ever tried.
"""

PLUGINS = ("Jpeg", "Png", "Gif", "Bmp", "Ppm", "Tiff", "WebP", "Avif")
"""Pillow's modules that read them; ``Image.init`` would import forty more."""

FORMAT_OF = {suffix: name for name, suffixes in FORMATS.items() for suffix in suffixes}

MOST_PIXELS = 2**27
"""Of an image that must be decoded whole: half a megabyte can hold so many."""

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

    labelled: bool = True
    """Leave out images beside class folders, which have no class; False keeps them, and
    then no image has a label."""

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


@functools.cache
def image_formats() -> tuple[str, ...]:
    """Those of ``FORMATS`` that can be decoded here; HEIF if pillow-heif is there."""
    if importlib.util.find_spec("pillow_heif") is not None:
        importlib.import_module("pillow_heif").register_heif_opener()
    for name in PLUGINS:
        with contextlib.suppress(ImportError):  # AVIF's came with Pillow 11.3
            importlib.import_module(f"PIL.{name}ImagePlugin")
    return tuple(name for name in FORMATS if name in Image.OPEN)


class SortedFiles(NamedTuple):
    """Files by the kind that their names say."""

    images: list[str]
    unreadable: list[str]
    """Images of a kind that nothing here decodes."""
    others: list[str]


def sort_files(names: Iterable[str]) -> SortedFiles:
    """Divides files into images, images of kinds without a decoder, and others."""
    files = SortedFiles([], [], [])
    for name in names:
        kind = FORMAT_OF.get(os.path.splitext(name)[1].lower())
        if kind is None:
            files.others.append(name)
        elif kind in image_formats():
            files.images.append(name)
        else:
            files.unreadable.append(name)
    return files


def decode_image(
    path: str | os.PathLike[str], options: ImageOptions | None = None
) -> Tensor:
    """The pixels of an image file, uint8 (channels, height, width).

    A photograph is turned upright as its camera noted; 16-bit grey becomes 8-bit.

    Raises:
        InputError: there is no such file.
        FileFormatError: it is empty, truncated or not an image.
    """
    try:
        _check_regular(path)
        with open(path, "rb") as file:
            return _decoded(file, os.fspath(path), options or ImageOptions())
    except FileNotFoundError as error:
        raise InputError(f"there is no image {os.fspath(path)}") from error
    except OSError as error:
        raise _undecoded(os.fspath(path), error) from error


def decode_bytes(data: bytes, name: str, options: ImageOptions | None = None) -> Tensor:
    """The pixels of an image that was read already, as ``decode_image`` gives them.

    Args:
        data: all bytes of an image file.
        name: what the error calls it.
        options: how it is read.

    Raises:
        FileFormatError: it is empty, truncated or not an image.
    """
    return _decoded(io.BytesIO(data), name, options or ImageOptions())


def _decoded(file: BinaryIO, name: str, options: ImageOptions) -> Tensor:
    mode = "L" if options.channels == 1 else "RGB"
    try:
        with Image.open(file, formats=image_formats()) as image:
            _check_pixels(image)
            pixels = _pixels(image, mode, options.side)
    except Exception as error:  # a corrupt file makes a decoder raise nearly anything
        raise _undecoded(name, error) from error
    return torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1)  # (c, h, w)


def _undecoded(name: str, error: Exception) -> FileFormatError:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, UnidentifiedImageError):  # which names an object in memory
        reason = "UnidentifiedImageError: no image of a known kind"
    return FileFormatError(f"{name} cannot be decoded as an image ({reason})")


def _check_regular(path: str | os.PathLike[str]) -> None:
    """Refuses pipes and devices, which would be waited for."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("not a regular file")


def _check_pixels(image: Image.Image) -> None:
    """Refuses what would take gigabytes; a JPEG shrinks while it is read."""
    pixels = image.width * image.height
    if pixels > MOST_PIXELS and image.format not in ("JPEG", "MPO"):
        raise OSError(f"{pixels} pixels, more than {MOST_PIXELS}")


def _pixels(image: Image.Image, mode: str, side: int | None) -> NDArray[np.uint8]:
    """Upright, of a mode and a size: (height, width), or (height, width, 3)."""
    if side is not None:
        # A JPEG file decodes straight to a smaller size.
        image.draft(mode, (side, side))
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I"):
        sixteen = np.asarray(image).clip(0, 65535)
        image = Image.fromarray((sixteen // 256).astype(np.uint8))
    if image.mode == "F":
        image = Image.fromarray(_bytes_of_floats(np.asarray(image)))
    converted = image if image.mode == mode else image.convert(mode)
    return pixels_of(converted) if side is None else resized(converted, side)


def _bytes_of_floats(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Floats as bytes: from 0 to 1, to 255 or to 65535, whichever holds them all."""
    known = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    top = next((one for one in (1, 255, 65535) if known.max(initial=0) <= one), 65535)
    return (known.clip(0, top) * (255 / top)).astype(np.uint8)


def stacked(images: Sequence[Tensor], names: Sequence[str]) -> Tensor:
    """Images uint8 (c, h, w) of one shape as uint8 (b, c, h, w).

    They lie in memory as they were decoded, with the channels of a pixel together.

    Raises:
        InputError: they have different shapes.
    """
    for name, image in zip(names, images, strict=True):
        if image.shape != images[0].shape:
            raise InputError(
                f"{names[0]} and {name} have the shapes {tuple(images[0].shape)} "
                f"and {tuple(image.shape)}; give data.side=224, to resize them"
            )
    pixels = torch.stack([image.permute(1, 2, 0) for image in images])
    return pixels.permute(0, 3, 1, 2)  # (b, c, h, w)


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

    @property
    def item_shape(self) -> tuple[int, int, int] | None:
        """Of every image; None where each keeps its own size."""
        side = self.options.side
        return None if side is None else (self.options.channels or 3, side, side)

    def batch(self, indices: Tensor) -> Tensor:
        """The images at indices (b,), uint8 (b, channels, height, width)."""
        paths = [self.root / self.names[index] for index in indices.tolist()]
        prepare(len(self))
        try:
            return self._read(paths)
        except FileFormatError as error:
            raise FileFormatError(f"{error}; --skip-bad leaves such out") from error

    def _read(self, paths: Sequence[Path]) -> Tensor:
        """Each image goes to its place in the batch while it is in the cache."""
        if self.item_shape is None:
            images = on_threads(lambda path: decode_image(path, self.options), paths)
            return stacked(images, [str(path) for path in paths])
        channels, height, width = self.item_shape
        pixels = torch.empty(len(paths), height, width, channels, dtype=torch.uint8)

        def read(at: int) -> None:
            pixels[at] = decode_image(paths[at], self.options).permute(1, 2, 0)

        spread(read, range(len(paths)))
        return pixels.permute(0, 3, 1, 2)  # (b, c, h, w)

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

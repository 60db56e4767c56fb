"""Pictures made square: bilinear, over as many pixels as a smaller one stands for.

Rows and columns are resized one after the other, each to whole bytes, in the order that
Pillow takes since version 13; so the same picture has the same bytes with any version,
and by the compiled kernels, which take less than half the time for colour.
"""

import functools
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gradsnap.compiled import kernels

Pixels = NDArray[np.uint8]

MANY = 256
"""Pictures that are worth importing the kernels for."""

KERNELS = "gradsnap.data.resizing_compiled"

ONE = 1 << 22
"""A weight of 1: weights are whole numbers, as Pillow's."""


class Taps(NamedTuple):
    """What each of n pixels is made of along one axis."""

    first: NDArray[np.uint64]
    """Where its pixels begin, (n,)."""
    weights: NDArray[np.int32]
    """Of the pixels from there on, (n, taps); about ``ONE`` together."""


def prepare(count: int) -> None:
    """Has the kernels at hand, where so many pictures are worth it."""
    if count >= MANY:
        kernels(KERNELS)


def resized(image: Image.Image, side: int) -> Pixels:
    """The pixels of an image, (side, side, 3), or (side, side) of a grey one.

    Example:
        >>> resized(Image.new("RGB", (30, 20), (9, 8, 7)), 2)[0, 0].tolist()
        [9, 8, 7]
    """
    if image.size == (side, side):
        return pixels_of(image)
    if KERNELS in sys.modules and image.mode == "RGB":
        return _by_kernels(_read(image), side)
    columns_first = _columns_first(*image.size, side)
    between = (image.width, side) if columns_first else (side, image.height)
    image = image.resize(between, Image.Resampling.BILINEAR)
    return pixels_of(image.resize((side, side), Image.Resampling.BILINEAR))


def pixels_of(image: Image.Image) -> Pixels:
    """The pixels of an image in colour, (h, w, 3), or in grey, (h, w)."""
    return _read(image).copy()


def _read(image: Image.Image) -> Pixels:
    """The same, read-only. Asked by NumPy itself, Pillow hands them out three times."""
    colours = (3,) if image.mode == "RGB" else ()
    shape = (image.height, image.width, *colours)
    return np.frombuffer(image.tobytes(), np.uint8).reshape(shape)


def _columns_first(width: int, height: int, side: int) -> bool:
    """Whether columns come first: in high and narrow pictures that get smaller."""
    return height > side and height + side > 2 * width


def _by_kernels(pixels: Pixels, side: int) -> Pixels:
    """``resized`` of pixels (height, width, 3)."""
    height, width, _ = pixels.shape
    if _columns_first(width, height, side):
        return _across(_down(pixels, side), side)
    return _down(_across(pixels, side), side)


def _across(pixels: Pixels, side: int) -> Pixels:
    """Every row (width, 3) of the pixels resized to (side, 3)."""
    height, width, _ = pixels.shape
    if width == side:
        return pixels
    out = np.empty((height, side, 3), np.uint8)
    compiled = sys.modules[KERNELS]
    compiled.across(pixels.reshape(height, -1), *taps(width, side), out)
    return out


def _down(pixels: Pixels, side: int) -> Pixels:
    """Every column (height, 3) of the pixels resized to (side, 3)."""
    height, width, _ = pixels.shape
    if height == side:
        return pixels
    out = np.empty((side, width, 3), np.uint8)
    compiled = sys.modules[KERNELS]
    flat = pixels.reshape(height, -1), out.reshape(side, -1)
    compiled.down(flat[0], *taps(height, side), flat[1])
    return out


@functools.lru_cache(maxsize=256)
def taps(size: int, side: int) -> Taps:
    """The taps of an axis of ``size`` pixels that is made ``side`` long.

    A pixel's weights fall in a straight line from its centre to one pixel of the
    coarser of both grids away from it, and add up to one, rounded to whole numbers.

    >>> taps(4, 2).weights.tolist()  # 3/7, 3/7, 1/7, and the same from the other end
    [[1797559, 1797559, 599186], [599186, 1797559, 1797559]]
    """
    scale = size / side
    reach = max(scale, 1.0)
    centres = (np.arange(side) + 0.5) * scale
    first = np.maximum((centres - reach + 0.5).astype(np.int64), 0)
    counts = np.minimum((centres + reach + 0.5).astype(np.int64), size) - first
    most = int(counts.max())
    first = np.minimum(first, size - most)  # all have as many, some with no weight
    offsets = first[:, None] + np.arange(most) - centres[:, None] + 0.5
    falling = np.maximum(1 - np.abs(offsets * (1 / reach)), 0)
    shares = falling / falling.sum(axis=1, keepdims=True)
    weights = np.floor(shares * ONE + 0.5).astype(np.int32)
    return Taps(first.astype(np.uint64), weights)

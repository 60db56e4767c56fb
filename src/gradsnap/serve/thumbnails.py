"""Small pictures of items, decoded from files the index names.

No file is ever sent as it is: what goes out was decoded and encoded again, so that it
is a picture, and without what a camera noted in it.
"""

import hashlib
import io
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps

from gradsnap.data.images import image_formats
from gradsnap.serve.refusals import Refusal

SIZES = (128, 256, 512, 1600)
"""Longest sides in pixels that can be asked for."""

TINY = 96
"""Up to so many pixels a picture is sent without loss: every pixel is seen."""

MOST_BYTES = 64 * 2**20
"""Of pictures that are kept."""

MOST_FILE_BYTES = 64 * 2**20


class Thumbnail(NamedTuple):
    """A small picture, and what names its content."""

    data: bytes
    kind: str
    tag: str


class Thumbnails:
    """Small pictures by path, size and when the file was written.

    Args:
        pixels: largest picture that is decoded.
        most_bytes: that are kept; those not asked for longest go first.
    """

    def __init__(self, pixels: int, most_bytes: int = MOST_BYTES) -> None:
        self.pixels, self.most_bytes = pixels, most_bytes
        self._kept: OrderedDict[tuple[str, int, int], Thumbnail] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, path: Path, size: int) -> Thumbnail:
        """The picture of a file, its longest side at most ``size`` pixels.

        Raises:
            Refusal: there is no such file, or it is no picture or too large.
        """
        try:
            found = path.stat()
        except (OSError, ValueError) as error:
            raise Refusal(404, "the picture of this item is not there") from error
        if found.st_size > MOST_FILE_BYTES or not path.is_file():
            raise Refusal(404, "the picture of this item cannot be shown")
        key = str(path), found.st_mtime_ns, size
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make_thumbnail(path, size, self.pixels)
        self._keep(key, made)
        return made

    def _keep(self, key: tuple[str, int, int], made: Thumbnail) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._bytes += len(made.data) - (0 if before is None else len(before.data))
            self._kept[key] = made
            while self._bytes > self.most_bytes:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone.data)


def make_thumbnail(path: Path, size: int, pixels: int) -> Thumbnail:
    """Decodes, turns upright, shrinks and encodes a picture.

    Raises:
        Refusal: it is no picture, damaged, or too large.
    """
    out = io.BytesIO()
    try:
        with Image.open(path, formats=image_formats()) as image:
            if image.width * image.height > pixels:
                raise Refusal(404, "the picture of this item is too large to show")
            tiny = max(image.size) <= TINY
            image.draft("RGB", (size, size))  # a JPEG file decodes straight to less
            upright = ImageOps.exif_transpose(image)
            upright.thumbnail((size, size), Image.Resampling.BICUBIC)
            shown = upright if upright.mode in ("L", "RGB") else upright.convert("RGB")
            shown.info = {}
            if tiny:
                shown.save(out, "PNG")
            else:
                shown.save(out, "JPEG", quality=82, optimize=False)
    except Refusal:
        raise
    except Exception as error:  # a corrupt file makes a decoder raise nearly anything
        raise Refusal(404, "the picture of this item cannot be read") from error
    data = out.getvalue()
    tag = hashlib.blake2b(data, digest_size=12).hexdigest()
    return Thumbnail(data, "image/png" if tiny else "image/jpeg", tag)

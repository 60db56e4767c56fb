"""What a file says of itself: size, time, checksum, and what its camera noted."""

import contextlib
import datetime
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from PIL import Image

from gradsnap.data.images import image_formats
from gradsnap.progress import track

BLOCK = 256
"""Files read between two steps of the progress bar."""

CHECKSUM_BYTES = 16

MAKE, MODEL, CHANGED, PHOTO, ORIGINAL = 0x010F, 0x0110, 0x0132, 0x8769, 0x9003
"""EXIF's numbers of the maker, the model, the date, the photograph's own table and the
date in it."""


class Stamp(NamedTuple):
    """What the file system knows of a file."""

    size: int
    """Bytes."""
    time: datetime.datetime
    """When it was last changed, in UTC without saying so, to the microsecond."""


class FileFacts(NamedTuple):
    """One row of the metadata of a file; None where it does not say."""

    size: int
    time: datetime.datetime
    checksum: str
    """Of all bytes, BLAKE2b of 128 bits in hexadecimal."""
    width: int | None
    height: int | None
    taken: datetime.datetime | None
    """When the photograph was taken, by the camera's own clock."""
    camera: str | None


def stamp_of(path: str | os.PathLike[str]) -> Stamp:
    """Size and time of a file."""
    found = os.stat(path)
    start = datetime.datetime(1970, 1, 1)
    since = datetime.timedelta(microseconds=found.st_mtime_ns // 1000)
    return Stamp(found.st_size, start + since)


def checksum_of(path: str | os.PathLike[str]) -> str:
    """BLAKE2b of all bytes of a file, 128 bits in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, _digest).hexdigest()


def facts_of(path: str | os.PathLike[str]) -> FileFacts:
    """All facts of a file; of an image that cannot be read the first three alone."""
    stamp = stamp_of(path)
    with open(path, "rb") as file:
        checksum = hashlib.file_digest(file, _digest).hexdigest()
        file.seek(0)
        noted: tuple[Any, ...] = (None, None, None, None)
        with contextlib.suppress(Exception):  # a corrupt file raises nearly anything
            noted = _noted(file)
    return FileFacts(*stamp, checksum, *noted)


def facts_of_all(paths: Sequence[str | os.PathLike[str]]) -> list[FileFacts]:
    """The facts of files, read in threads."""
    facts: list[FileFacts] = []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        starts = range(0, len(paths), BLOCK)
        for start in track(starts, "reading what files say of themselves"):
            facts += pool.map(facts_of, paths[start : start + BLOCK])
    return facts


def _digest() -> Any:
    return hashlib.blake2b(digest_size=CHECKSUM_BYTES)


def _noted(file: Any) -> tuple[Any, ...]:
    """Width, height, date and camera of an open image."""
    with Image.open(file, formats=image_formats()) as image:
        exif = image.getexif()
        photo = exif.get_ifd(PHOTO)
        date = _date(photo.get(ORIGINAL)) or _date(exif.get(CHANGED))
        return (*image.size, date, _camera(exif.get(MAKE), exif.get(MODEL)))


def _date(text: object) -> datetime.datetime | None:
    """EXIF's ``2021:05:01 12:30:00``."""
    try:
        return datetime.datetime.strptime(str(text)[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None


def _camera(make: object, model: object) -> str | None:
    """Maker and model, the maker once."""
    maker, name = (_line(one) for one in (make, model))
    first = maker.partition(" ")[0].lower()
    whole = name if first and name.lower().startswith(first) else f"{maker} {name}"
    return whole.strip() or None


def _line(value: object) -> str:
    """Text without what no terminal or page should get."""
    text = value if isinstance(value, str) else ""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(shown.split())

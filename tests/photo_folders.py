"""Folders of small photos of all kinds and names, made on the spot."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

KINDS = (".jpg", ".png", ".webp", ".JPEG", ".gif", ".jfif", ".bmp", ".tiff")
FOLDERS = ("", "2021", "2021/holiday", "misc [old]", "ünï", "linked")
NAMES = (
    "IMG_{}",
    "photo {}",
    "a[x]{}[",
    "IMG [draft] {}",
    "[bold]{}",
    "ctrl\x1b[31m{}",
    os.fsdecode(b"caf\xe9 {}"),
    "new\nline {}",
)
SIZE = (24, 20)


def make_photos(folder: Path, numbers: range) -> list[str]:
    """Writes a photo for each number; their paths below the folder.

    ``linked`` is a link to a folder outside.
    """
    names = list(_names(numbers))
    outside = folder.parent / "elsewhere"
    if not folder.exists():
        folder.mkdir(parents=True)
        outside.mkdir()
        (folder / "linked").symlink_to(outside)
    for number, name in zip(numbers, names, strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _save(path, number)
    return names


def _names(numbers: range) -> Iterator[str]:
    for number in numbers:
        place = FOLDERS[number % len(FOLDERS)]
        name = (
            NAMES[number % len(NAMES)].format(number) + KINDS[number // 3 % len(KINDS)]
        )
        yield f"{place}/{name}" if place else name


def _save(path: Path, number: int) -> None:
    """A blurred pattern; every tenth photo is the one before, in other bytes."""
    seed = number - 1 if number % 10 == 9 else number
    few = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    image = Image.fromarray(few).resize(SIZE, Image.Resampling.BICUBIC)
    options: dict[str, Any] = {}
    if path.suffix.lower() in (".jpg", ".jpeg", ".jfif"):
        exif = Image.Exif()
        exif[0x010F], exif[0x0110] = "Canon", ("EOS", "Canon G9")[number % 2]
        exif.get_ifd(0x8769)[0x9003] = f"{2010 + number % 14}:05:01 12:30:00"
        options = {"exif": exif, "quality": 95}
    kind = Image.registered_extensions()[path.suffix.lower()]
    with path.open("wb") as file:
        image.save(file, kind, **options)

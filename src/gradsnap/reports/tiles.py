"""A sheet of pictures: groups of files with a few words below each."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps

from gradsnap.data.images import image_formats
from gradsnap.reports.markup import Markup, markup, tag
from gradsnap.reports.page import Section, page
from gradsnap.strings import shown

SIDE = 224
"""Pixels of the longer side of a picture."""
TINY = 96
"""Up to so many pixels a picture is kept without loss."""


class Tile(NamedTuple):
    """One file of a sheet."""

    name: str
    path: Path | None
    """Where it lies; None where that is not known or not to be opened."""
    words: str
    """What is said of it, such as its distance."""


class Group(NamedTuple):
    """Files that belong together."""

    title: str
    tiles: Sequence[Tile]


def sheet(title: str, lead: str, groups: Sequence[Group], footer: str) -> str:
    """A page with the pictures of all groups inside; it asks for nothing else."""
    sections = [
        Section(f"group-{number}", shown(group.title), tiles(group.tiles))
        for number, group in enumerate(groups, 1)
    ]
    return page(shown(title), shown(title), lead, sections, footer)


def tiles(some: Sequence[Tile]) -> Markup:
    """Pictures side by side, in order."""
    if not some:
        return tag("p", "nothing was found")
    return tag("ol", *(_tile(one) for one in some), class_="tiles")


def thumbnail(path: Path) -> Markup | None:
    """The picture of a file, small and upright; None where there is none to show."""
    out = io.BytesIO()
    try:
        with Image.open(path, formats=image_formats()) as image:
            kind = "PNG" if max(image.size) <= TINY else "JPEG"
            image.draft("RGB", (SIDE, SIDE))
            upright = ImageOps.exif_transpose(image)
            upright.thumbnail((SIDE, SIDE))
            plain = upright.convert("RGB")
            plain.info = {}  # nothing of what the camera noted
            plain.save(out, kind)
    except Exception:  # a corrupt file makes a decoder raise nearly anything
        return None
    data = base64.b64encode(out.getvalue()).decode("ascii")
    source = f"data:image/{kind.lower()};base64,{data}"
    return tag("img", src=source, alt=shown(path.name), loading="lazy")


def _tile(one: Tile) -> Markup:
    picture = None if one.path is None else thumbnail(one.path)
    drawn = picture or tag("span", "no picture", class_="none")
    if one.path is not None:
        drawn = tag("a", drawn, href=one.path.absolute().as_uri())
    below = markup(tag("b", shown(one.name)), tag("small", shown(one.words)))
    return tag("li", drawn, below)

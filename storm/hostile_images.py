"""Images: strange, broken, meant badly; and names that no terminal should see."""

import io
import os
import random
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from gradsnap.collection.facts import facts_of_all
from gradsnap.data import open_dataset
from gradsnap.data.images import ImageOptions, decode_image
from gradsnap.errors import GradsnapError
from storm import commands, damage
from storm.kind import Kind
from storm.outcomes import WrongAnswer

MODES = ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F")
ENDS = ("png", "jpg", "gif", "tif", "bmp", "webp", "ppm")
SIZES = ((1, 1), (5, 9), (33, 2), (60_000, 1), (1, 60_000), (64, 64))
NAMES = (
    "plain", "IMG [draft]", "a[", "[bold]x", "new\nline", "esc\x1b[31mred", "\x07bell",
    os.fsdecode(b"caf\xe9"), "\u202egpj.exe", "‮", "a b", "'", '"><script>', "..x", "é",
    "x" * 200, "-rf", "--help", "*", "%s", "{0}", "\\", "C:\\x", "\x85", "\u2028line",
)  # fmt: skip


class Images(Kind):
    """Files of every mode and format, damaged or not: pixels, or refused."""

    name = "images"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        warnings.simplefilter("ignore")

    def attempt(self, numbers: random.Random, place: Path) -> str:
        path = place / f"{_name(numbers)}.{numbers.choice(ENDS)}"
        whole = _written(path, numbers)
        options = ImageOptions(
            side=numbers.choice((None, 1, 8, 32)), channels=numbers.choice((None, 1, 3))
        )
        try:
            pixels = decode_image(path, options)
            facts_of_all([os.fspath(path)])
        except GradsnapError as error:
            if whole:
                raise WrongAnswer(f"a good {path.suffix} is refused: {error}") from None
            return "refused"
        side, wanted = options.side, options.channels or 3
        if pixels.shape[0] != wanted or (side and pixels.shape[1:] != (side, side)):
            raise WrongAnswer(f"{options} gave {tuple(pixels.shape)}")
        return "answered"


def _name(numbers: random.Random) -> str:
    return numbers.choice(NAMES).replace("/", "")


def _written(path: Path, numbers: random.Random) -> bool:
    """Writes a file; whether it is one that must decode."""
    way = numbers.randrange(12)
    if way == 0:
        path.write_bytes(_crafted(numbers))
        return False
    if way == 1:
        path.write_bytes(b"")
        damage.displace(path, numbers)
        return False
    data = _picture(path.suffix, numbers)
    if data is None:
        path.write_bytes(numbers.randbytes(100))
        return False
    if way < 8:
        data = damage.damaged(data, numbers)
    path.write_bytes(data)
    return way >= 8


def _picture(suffix: str, numbers: random.Random) -> bytes | None:
    """A good file, or None where this format cannot hold this mode or size."""
    mode, size = numbers.choice(MODES), numbers.choice(SIZES)
    kind = Image.registered_extensions().get(suffix, "PNG")
    options: dict[str, Any] = {}
    if kind in ("JPEG", "PNG", "WEBP") and numbers.randrange(3) == 0:
        exif = Image.Exif()
        exif[0x0112] = numbers.choice((1, 2, 3, 4, 5, 6, 7, 8, 0, 99, 65535))
        exif[0x0132] = numbers.choice(("2020:01:01 00:00:00", "x", "\0" * 40))
        options["exif"] = exif
    if kind in ("GIF", "WEBP", "TIFF", "PNG") and numbers.randrange(4) == 0:
        more = [Image.new(mode, size, 1) for _ in range(3)]
        options |= {"save_all": True, "append_images": more}
    file = io.BytesIO()
    try:
        Image.new(mode, size, numbers.randrange(2)).save(file, kind, **options)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, struct.error):
        return None
    return file.getvalue()


def _png(width: int, height: int, data: bytes, depth: int = 8, color: int = 2) -> bytes:
    """A PNG that says what it is told to, with right checksums."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        length, check = struct.pack(">I", len(content)), zlib.crc32(body)
        return length + body + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _crafted(numbers: random.Random) -> bytes:
    """Bombs, sizes of zero, programs with an image's name."""
    ways: list[Callable[[], bytes]] = [
        lambda: _png(0, 0, b""),
        lambda: _png(2**31 - 1, 2**31 - 1, zlib.compress(b"\0")),
        lambda: _png(13_000, 13_000, zlib.compress(bytes(1000))),
        lambda: _png(8, 8, zlib.compress(bytes(10**6))),
        lambda: _png(8, 8, b"", numbers.randrange(256), numbers.randrange(256)),
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage",
        lambda: b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(20),
        lambda: b"P6 99999999 99999999 255\n",
        lambda: b"P6 -1 -1 255\n",
        lambda: b"II*\0" + struct.pack("<I", 8) + numbers.randbytes(60),
        lambda: b"BM" + numbers.randbytes(52),
        lambda: b"RIFF\xff\xff\xff\xffWEBPVP8 " + numbers.randbytes(30),
        lambda: b"\xff\xd8\xff\xe0" + numbers.randbytes(80),
        lambda: b"<svg onload=alert(1)>",
    ]
    return numbers.choice(ways)()


class Photos(Kind):
    """A folder of such files under such names: indexed by verbs, and shown."""

    name = "photos"
    weight = 30.0
    patience = 40.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        warnings.simplefilter("ignore")
        ImageFile.LOAD_TRUNCATED_IMAGES = False
        train = place / "train"
        for label in ("red", "blue"):
            (train / label).mkdir(parents=True)
            for number in range(8):
                colour = (200, number, 30) if label == "red" else (30, number, 200)
                Image.new("RGB", (16, 16), colour).save(train / label / f"{number}.png")
        said = commands.run(
            "train", train, "--bits", 4, "--out", place / "model", "--quiet",
            "--no-beside-plain", "network.name=small", "data.side=16", "run.steps=2",
            "coder.codebook_size=4", "data.validation=0.25", "run.batch_size=8",
        )  # fmt: skip
        if said.code:
            raise RuntimeError(said.err)

    def attempt(self, numbers: random.Random, place: Path) -> str:
        folder, index = place / "photos", place / "photos.index"
        folder.mkdir()
        for number in range(numbers.choice((1, 3))):
            name = f"{_name(numbers)[:200]}{number}.{numbers.choice(ENDS)}"
            _written(folder / name, numbers)
        for number in range(2):  # two that are fine
            pixels = np.full((9, 9, 3), 40 * number, dtype=np.uint8)
            Image.fromarray(pixels).save(
                folder / f"{_name(numbers)[:200]} ok{number}.png"
            )
        skips = ("--skip-bad",) if numbers.randrange(4) else ()
        model = self.place / "model"
        said = commands.run("index", model, folder, "--out", index, *skips)
        if said.code:
            return "refused"
        first = open_dataset(str(folder), labelled=False, skip_bad=True).names[0]
        page = place / "page.html"
        words: list[tuple[Any, ...]]
        words = [("search", index, folder / first, "-k", 9, "--html", page)]
        words += [("search", index, "--id", first, "--json"), ("sync", index)]
        words += [("duplicates", index), ("remove", index, first)]
        for some in numbers.sample(words, 2):
            commands.run(*some)
        if page.exists():
            _check_page(page)
        return "answered"


def _check_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if '"><script>' in text:
        raise WrongAnswer("a file's name is markup of the page")
    raw = [one for one in text if ord(one) < 32 and one not in "\n\t\r"]
    if raw:
        raise WrongAnswer(f"the page holds a raw {raw[0]!r}")

"""Checksums of blocks, so that a part of a large file can be looked at.

Opening an index must not read all of it. So the manifest also has a checksum of every
four MiB of a large file; opening looks at a few of them, and a server, in the
background, at all.
"""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradsnap.errors import FileFormatError

BLOCK = 2**22
"""Bytes of a block."""

DIGITS = 16
"""Of a block's checksum: damage is noticed, and a manifest stays short."""

SAMPLED = 4
"""Blocks of a large file that are looked at when it is opened."""


def block_sums(path: Path) -> str:
    """The checksums of a file's blocks, one after the other."""
    with path.open("rb") as file:
        parts = iter(lambda: file.read(BLOCK), b"")
        return "".join(_sum(part) for part in parts)


def check_block(path: Path, sums: str, number: int) -> None:
    """Compares one block with its checksum.

    Raises:
        FileFormatError: it was changed.
    """
    with path.open("rb") as file:
        file.seek(number * BLOCK)
        found = _sum(file.read(BLOCK))
    if found != sums[number * DIGITS : (number + 1) * DIGITS]:
        first = number * BLOCK
        raise FileFormatError(
            f"{path} was changed: bytes {first} to {first + BLOCK} do not fit their "
            "checksum"
        )


def check_sample(path: Path, sums: str, size: int) -> None:
    """Compares the first block, the last and a few others, each time others."""
    count = -(-size // BLOCK)
    if len(sums) != count * DIGITS:
        raise FileFormatError(f"{path} has checksums of other blocks than its own")
    some = random.SystemRandom().sample(range(count), min(SAMPLED, count))
    for number in {0, count - 1, *some}:
        check_block(path, sums, number)


def every_block(
    folder: Path, content: dict[str, Any]
) -> Iterator[tuple[Path, str, int]]:
    """Path, checksums and number of every block that a manifest has checksums of."""
    for name, sums in content.get("blocks", {}).items():
        for number in range(len(sums) // DIGITS):
            yield folder / name, sums, number


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]

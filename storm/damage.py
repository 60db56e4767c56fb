"""Files and values made bad."""

import contextlib
import copy
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storm.guard import SECRET

Bytes = Callable[[bytes, random.Random], bytes]


def _cut(data: bytes, numbers: random.Random) -> bytes:
    return data[: numbers.randrange(len(data) + 1)]


def _flipped(data: bytes, numbers: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(numbers.choice((1, 1, 1, 2, 8))):
        changed[numbers.randrange(len(changed))] ^= 1 << numbers.randrange(8)
    return bytes(changed)


def _extreme(data: bytes, numbers: random.Random) -> bytes:
    """A few bytes in a row that read as a huge, negative or infinite number."""
    changed = bytearray(data or b"\0")
    at = numbers.randrange(len(changed))
    width = numbers.choice((1, 2, 4, 8, 64))
    changed[at : at + width] = numbers.choice((b"\xff", b"\0", b"\x7f")) * width
    return bytes(changed[: max(len(data), 1)])


def _longer(data: bytes, numbers: random.Random) -> bytes:
    return data + numbers.randbytes(numbers.choice((1, 8, 64, 4096)))


def _moved(data: bytes, numbers: random.Random) -> bytes:
    """Two pieces in each other's places."""
    if len(data) < 4:
        return b""
    width = numbers.randrange(1, len(data) // 2)
    return data[width : 2 * width] + data[:width] + data[2 * width :]


BYTES: list[Bytes] = [
    _cut,
    _flipped,
    _flipped,
    _extreme,
    _longer,
    _moved,
    lambda data, numbers: b"",
    lambda data, numbers: numbers.randbytes(len(data)),
    lambda data, numbers: b"\xff" * len(data),
    lambda data, numbers: b"\0" * len(data),
]
"""What may happen to the bytes of a file."""


def damaged(data: bytes, numbers: random.Random) -> bytes:
    """The bytes with one thing wrong, or a few."""
    for _ in range(numbers.choice((1, 1, 1, 2))):
        data = numbers.choice(BYTES)(data, numbers)
    return data


def displace(path: Path, numbers: random.Random) -> None:
    """Puts something else in the place of a file."""
    outside = path.parent.parent / SECRET
    path.unlink()
    way = numbers.randrange(6)
    if way == 0:
        path.mkdir()
    elif way == 1:
        path.symlink_to(outside)
    elif way == 2:
        path.symlink_to(path.name)  # a circle
    elif way == 3:
        os.mkfifo(path)
    elif way == 4:
        with contextlib.suppress(OSError):
            path.symlink_to("/dev/zero")


VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -(2**63),
    2**70, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "0", "int64",
    "uint8", "object", "..", "../x", f"../{SECRET}", "/etc/passwd", "a/b", ".", "\0",
    "\x1b[2J", "\ud800", "manifest.json", "writer.lock", "x" * 5000, [], {}, [[1]],
    [0], [-1], ["x", "uint8", [1]], {"x": 1}, [None], {"bytes": 1}, 10**18, 2**31 - 1,
]  # fmt: skip
"""Values that stand in no file of ours, or not there."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in nested tables and lists."""
    found = [path] if path else []
    pairs = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else pairs:
        found += leaves(inner, (*path, key))
    return found


def changed_value(content: Any, numbers: random.Random) -> None:
    """Changes one value of nested tables in place, takes it away, or adds one."""
    places = leaves(content)
    if not places:
        return
    place = numbers.choice(places)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    way, key = numbers.randrange(12), place[-1]
    if way == 0:
        del inner[key]
    elif way == 1 and isinstance(inner, dict):
        inner[str(numbers.choice(VALUES))] = inner.pop(key)
    elif way == 2:  # a value from elsewhere in the same file
        other = content
        for step in numbers.choice(places):
            other = other[step]
        inner[key] = copy.deepcopy(other)
    elif way <= 4 and type(inner[key]) is int:
        inner[key] += numbers.choice((-1, 1, 2, -inner[key], inner[key], 2**20))
    else:
        inner[key] = copy.deepcopy(numbers.choice(VALUES))  # it may be changed next

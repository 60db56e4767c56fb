"""String ids: a block of text and where each string ends, so it can be mapped."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.errors import FileFormatError

Array = NDArray[Any]


class Names:
    """Strings by position.

    Args:
        text: their UTF-8 bytes one after the other, uint8.
        ends: where each one ends, uint64 (n,).

    Example:
        >>> Names.of(["cat", "dog"])[1]
        'dog'
    """

    def __init__(self, text: Array, ends: Array) -> None:
        self.text = text
        self.ends = ends

    @classmethod
    def of(cls, strings: Sequence[str]) -> "Names":
        """The strings, in order."""
        encoded = [string.encode() for string in strings]
        ends = np.cumsum([len(part) for part in encoded], dtype=np.uint64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, position: int) -> str:
        start = int(self.ends[position - 1]) if position else 0
        raw = bytes(self.text[start : int(self.ends[position])])
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"string id {position} is not text: {error}"
            ) from error

    def strings(self) -> list[str]:
        """All of them."""
        return [self[position] for position in range(len(self))]

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Where each string stands."""
        return {string: at for at, string in enumerate(self.strings())}

    def find(self, strings: Sequence[str]) -> Array:
        """Positions (n,), -1 for strings that are not here."""
        found = [self.positions.get(string, -1) for string in strings]
        return np.array(found, dtype=np.int64)

"""Many strings in two arrays, which files can hold and processes can share."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.errors import FileFormatError, InputError


class PackedStrings(Sequence[str]):
    """An immutable sequence of strings, packed.

    A million file names as Python strings cost a hundred megabytes in every process;
    packed they cost their letters. The arrays may be mapped from a file.

    Args:
        text: the UTF-8 bytes of all strings, one after the other, uint8. Bytes that are
            not UTF-8, as in some file names, are kept as Python's ``surrogateescape``.
        ends: where each string ends in the text, uint64 (n,).

    Raises:
        FileFormatError: the last string does not end where the text does; when a string
            is read, that it ends outside of the text or before it begins.

    Example:
        >>> names = PackedStrings.of(["cat/1.jpg", "dog/1.jpg"])
        >>> len(names), names[1], names[-2], names.find(["dog/1.jpg", "cow"])
        (2, 'dog/1.jpg', 'cat/1.jpg', array([ 1, -1]))
    """

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.uint64]) -> None:
        if len(text) != (int(ends[-1]) if len(ends) else 0):
            raise FileFormatError(
                f"{len(ends)} strings should end at byte {ends[-1] if len(ends) else 0}"
                f" of their text, which has {len(text)} bytes"
            )
        self.text = text
        self.ends = ends

    @classmethod
    def of(cls, strings: Iterable[str]) -> "PackedStrings":
        """The strings, in order."""
        encoded = [_encode(string) for string in strings]
        ends = np.cumsum([len(part) for part in encoded], dtype=np.uint64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    @classmethod
    def joined(cls, parts: "Sequence[PackedStrings]") -> "PackedStrings":
        """The strings of all parts, in order.

        >>> few = [PackedStrings.of(["a", ""]), PackedStrings.of(["bc"])]
        >>> list(PackedStrings.joined(few))
        ['a', '', 'bc']
        """
        sizes = np.cumsum([0, *(len(part.text) for part in parts)], dtype=np.uint64)
        texts = [np.empty(0, dtype=np.uint8), *(part.text for part in parts)]
        ends = [np.empty(0, dtype=np.uint64)]
        ends += [part.ends + start for part, start in zip(parts, sizes, strict=False)]
        return cls(np.concatenate(texts), np.concatenate(ends))

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "PackedStrings": ...
    def __getitem__(self, index: int | slice) -> "str | PackedStrings":
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        position = range(len(self))[index]  # raises IndexError as a list does
        begin = int(self.ends[position - 1]) if position else 0
        end = int(self.ends[position])
        if not begin <= end <= len(self.text):
            raise FileFormatError(
                f"string {position} lies at bytes {begin} to {end} of a text of "
                f"{len(self.text)}: the file is damaged"
            )
        return self.text[begin:end].tobytes().decode("utf-8", "surrogateescape")

    def find(self, strings: Iterable[str]) -> NDArray[np.int64]:
        """Positions (n,) of strings, the first of equal ones; −1 where not here."""
        found = [self._positions.get(string, -1) for string in strings]
        return np.array(found, dtype=np.int64)

    def take(self, indices: Tensor | NDArray[np.integer[Any]]) -> "PackedStrings":
        """The strings at indices (m,), in that order."""
        chosen = np.asarray(indices)
        starts = np.concatenate([[0], self.ends]).astype(np.int64)  # (n + 1,)
        lengths = np.diff(starts)[chosen]
        if (lengths < 0).any():
            raise FileFormatError("a string ends before it begins: the file is damaged")
        ends = lengths.cumsum()  # (m,)
        # Letter j of the result comes from j plus the shift of the string it is in.
        shifts = np.repeat(starts[:-1][chosen] - (ends - lengths), lengths)
        letters = self.text[np.arange(len(shifts)) + shifts]
        return PackedStrings(letters, ends.astype(np.uint64))

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {self[position]: position for position in reversed(range(len(self)))}

    @functools.cached_property
    def _shared(self) -> tuple[Tensor, Tensor]:
        # Torch passes tensors to its worker processes through shared memory. They are
        # kept, so that it is the same memory for all workers.
        ends = self.ends.astype(np.int64)
        return torch.from_numpy(np.array(self.text)), torch.from_numpy(ends)

    def __getstate__(self) -> tuple[Tensor, Tensor]:
        return self._shared

    def __setstate__(self, state: tuple[Tensor, Tensor]) -> None:
        self.text = state[0].numpy()
        self.ends = state[1].numpy().view(np.uint64)

    def __repr__(self) -> str:
        return f"PackedStrings({len(self)} strings)"


def shown(text: str) -> str:
    r"""The text for a terminal or a page: what cannot be printed is escaped.

    Control characters could move the cursor or forge lines; bytes that are no UTF-8
    cannot be written at all.

    Example:
        >>> print(shown("caf\udce9 \x1b[1m.jpg"))
        caf\udce9 \x1b[1m.jpg
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        for one in text
    )


def _encode(string: str) -> bytes:
    try:
        return string.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"{string!r} is no text that can be stored") from error

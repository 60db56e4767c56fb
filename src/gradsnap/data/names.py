"""Many strings in two tensors, which worker processes share instead of copying."""

from collections.abc import Iterable, Sequence
from typing import overload

import torch
from torch import Tensor


class Names(Sequence[str]):
    """An immutable sequence of strings, packed.

    A million file names as Python strings cost a hundred megabytes in every worker
    process; packed they cost their letters, once for all processes, because torch
    passes tensors to its workers through shared memory.

    Args:
        names: the strings.

    Example:
        >>> names = Names(["cat/1.jpg", "dog/1.jpg"])
        >>> len(names), names[1], names[-2]
        (2, 'dog/1.jpg', 'cat/1.jpg')
    """

    def __init__(self, names: Iterable[str]) -> None:
        # "surrogateescape" keeps file names that are not valid UTF-8.
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        lengths = torch.tensor([0, *map(len, encoded)], dtype=torch.int64)
        self._ends = lengths.cumsum(0)  # (n + 1,)
        letters = bytearray(b"".join(encoded)) or bytearray(1)
        self._letters = torch.frombuffer(letters, dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Names": ...
    def __getitem__(self, index: int | slice) -> "str | Names":
        if isinstance(index, slice):
            return Names(self[i] for i in range(*index.indices(len(self))))
        position = range(len(self))[index]  # raises IndexError as a list does
        begin, end = self._ends[position : position + 2].tolist()
        packed = self._letters[begin:end].numpy().tobytes()
        return packed.decode("utf-8", "surrogateescape")

    def take(self, indices: Tensor) -> "Names":
        """The names at indices (m,), in that order."""
        return Names(self[index] for index in indices.tolist())

    def __repr__(self) -> str:
        return f"Names({len(self)} strings)"

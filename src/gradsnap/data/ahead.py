"""Batches read in a thread while the one before is worked on."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Batch = TypeVar("Batch")
Read = TypeVar("Read", covariant=True)

AHEAD = 2
"""Batches that are read before they are asked for."""


class _End:
    """What comes after the last batch."""


END = _End()


class Batches(Protocol[Read]):
    """What can be gone through, and knows how many there are."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Read]: ...


@dataclass(frozen=True, eq=False)
class ReadAhead(Generic[Batch]):
    """The same batches in the same order, read by a thread of its own.

    Decoding frees Python's lock, as networks do, so the two go on side by side. An
    error comes up where its batch would have.

    Example:
        >>> list(ReadAhead([3, 1, 2]))
        [3, 1, 2]
    """

    batches: Batches[Batch]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Generator[Batch, None, None]:
        source = iter(self.batches)
        with ThreadPoolExecutor(1) as reader:  # one thread, so the order is kept
            coming = deque(reader.submit(next, source, END) for _ in range(AHEAD))
            try:
                while not isinstance(batch := coming.popleft().result(), _End):
                    coming.append(reader.submit(next, source, END))
                    yield batch
            finally:
                for one in coming:
                    one.cancel()

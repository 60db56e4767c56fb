"""What is read shard by shard: the contract, one file a kind beside this one."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Shard(NamedTuple):
    """A part of a source that one process lists and reads."""

    name: str
    """For people and for the names of items: ``shard-00001.tar``."""
    part: tuple[Any, ...] = ()
    """What its reader needs beside the name: paths and numbers."""


class Listed(NamedTuple):
    """What a shard holds, in order; nothing of it is decoded."""

    keys: Sequence[str]
    """What tells its n items apart; empty strings where the row does."""
    labels: Sequence[str | None]
    """The class of each as text; None where it has none."""
    places: NDArray[np.int64]
    """Where each lies, (n, k); k may be 0, where key and row say it."""


class Wanted(NamedTuple):
    """An item of a shard that is to be read."""

    key: str
    row: int
    """Its place in the order of the listing."""
    place: NDArray[np.int64]
    """A row of ``Listed.places``, (k,)."""


class ShardReader(Protocol):
    """Lists and reads shards; can be sent to worker processes."""

    @property
    def address(self) -> str:
        """Of the source, as it was given."""

    @property
    def holds_images(self) -> bool:
        """Whether items are images, else vectors."""

    @property
    def reads_whole(self) -> bool:
        """Whether a shard is decoded as a whole, so that its items belong together.

        Such are read one after the other, others over a network many at once.
        """

    @property
    def is_local(self) -> bool:
        """Whether items lie on this machine, so that none is waited for."""

    @property
    def forks(self) -> bool:
        """Whether processes that were forked off can read."""

    def shards(self) -> Sequence[Shard]:
        """All of them, in order; the same on every process."""

    def listed(self, shard: Shard) -> Listed:
        """The items of one shard."""

    def content(self, shard: Shard) -> str | None:
        """What changes when the shard does; None where listing it takes no time."""

    def read(self, shard: Shard, wanted: Sequence[Wanted]) -> Any:
        """Encoded images as m bytes, or vectors float32 (m, dim)."""

    def name(self, shard: Shard, key: str, row: int) -> str:
        """What an item is called: the same wherever the source is moved to."""

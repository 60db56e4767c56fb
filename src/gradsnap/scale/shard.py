"""A shard: a part of a source that one worker reads, and one fragment is written of.

A source is cut the same way every time, so that a job that was killed knows by the keys
of shards what is written already.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

SHARD_ROWS = 4096
"""Rows of a shard, where the source leaves the choice: a minute of photos a core. A
table of 10⁹ rows wants larger ones, since each commit lists all fragments."""

CHUNK_ROWS = 256
"""Rows that are read together."""


class Shard(NamedTuple):
    """Which part of a source; small, whatever it holds."""

    key: int
    """Of what is in it: from 0 to 2⁶³ − 1, in the column ``shard`` of its rows."""
    rows: int
    """How many there are, as far as the source says; 0 if it does not."""
    part: Any
    """What its source needs to read it: plain lists, numbers and strings."""


class Chunk(NamedTuple):
    """Some rows of a shard, in order."""

    ids: Any
    """n strings, or n whole numbers."""
    items: Any
    """n encoded images as bytes; or images uint8 (n, c, h, w) or vectors float32
    (n, dim) as arrays."""
    metadata: Any = None
    """A pyarrow table of n rows."""


class Source(Protocol):
    """Images or vectors that are read shard by shard; can be sent to workers."""

    @property
    def holds_images(self) -> bool:
        """Whether items are images."""

    def shards(self) -> Sequence[Shard]:
        """All parts, in order; the same every time while nothing changed."""

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The rows of a shard."""

    def schema(self) -> Any:
        """Types of ``id`` and of the metadata: a pyarrow schema, ``id`` first."""


def shard_of(source: str, part: Any, rows: int, content: str = "") -> Shard:
    """A shard with its key.

    Args:
        source: the address the part belongs to.
        part: what the source needs to read it.
        rows: how many it has, or 0.
        content: what changes when the rows do, such as names and sizes of files.

    Example:
        >>> one, same, other = (shard_of("photos", [0, n], n) for n in (5, 5, 6))
        >>> one.key == same.key, one.key == other.key
        (True, False)
    """
    text = json.dumps([source, part, content], sort_keys=True)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8)
    return Shard(int.from_bytes(digest.digest(), "big") >> 1, rows, part)

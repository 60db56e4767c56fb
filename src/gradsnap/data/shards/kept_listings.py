"""Lists of shards that take long to make, kept in files for the next start."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradsnap.data.shards.reader import Listed, Shard, ShardReader
from gradsnap.errors import FileFormatError
from gradsnap.files import make_folder, replacing
from gradsnap.reading import reading
from gradsnap.strings import PackedStrings

logger = logging.getLogger(__name__)

NO_LABEL = "\0"
"""What stands for a label that is not there; no file of labels holds it."""


@dataclass(frozen=True, eq=False)
class KeptListings:
    """Lists a shard once; after a restart, and by whatever process, it is read."""

    reader: ShardReader
    folder: Path

    def __call__(self, shard: Shard) -> Listed:
        """The items of a shard, as its reader lists them."""
        content = self.reader.content(shard)
        if content is None:
            return self.reader.listed(shard)
        word = f"{shard.name}\0{content}".encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(word, digest_size=12).hexdigest()
        path = self.folder / f"listing-{digest}.npz"
        if path.is_file():
            try:
                return read_listing(path)
            except FileFormatError as error:
                logger.warning("%s; listing %s again", error, shard.name)
        listed = self.reader.listed(shard)
        write_listing(path, listed)
        return listed


def write_listing(path: Path, listed: Listed) -> None:
    """Writes what a shard holds, as arrays."""
    labels = [NO_LABEL if one is None else one for one in listed.labels]
    arrays: dict[str, Any] = {"places": listed.places}
    for name, strings in (("keys", listed.keys), ("labels", labels)):
        packed = PackedStrings.of(strings)
        arrays |= {f"{name}_text": packed.text, f"{name}_ends": packed.ends}
    make_folder(path.parent)
    with replacing(path) as beside, open(beside, "wb") as file:
        np.savez(file, **arrays)


def read_listing(path: Path) -> Listed:
    """What ``write_listing`` wrote.

    Raises:
        FileFormatError: the file is damaged.
    """
    with reading(path, "a list of a shard"), np.load(path, allow_pickle=False) as found:
        keys, labels = (
            PackedStrings(found[f"{name}_text"], found[f"{name}_ends"])
            for name in ("keys", "labels")
        )
        listed = Listed(
            keys,
            [None if one == NO_LABEL else one for one in labels],
            found["places"],
        )
        if not len(keys) == len(labels) == len(listed.places):
            raise FileFormatError(f"{path} is damaged: its lists differ in length")
        return listed

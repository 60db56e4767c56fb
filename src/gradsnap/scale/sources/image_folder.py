"""Image files in folders, on any file system; nobody holds all their names."""

import datetime
import itertools
import os
import posixpath
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from gradsnap.data.folders import is_image
from gradsnap.data.images import FORMAT_OF
from gradsnap.errors import InputError
from gradsnap.index.segment_columns import storable
from gradsnap.places import Entry, Place, place_of
from gradsnap.remembered import Remembered
from gradsnap.scale.shard import CHUNK_ROWS, SHARD_ROWS, Chunk, Shard, shard_of

READERS = 16
"""Files that are asked for at once where they come over a network."""


class ImageFolder:
    """All images below a folder, in the sorted order of their paths.

    The one who cuts it into shards walks through the folders once and keeps of each run
    of files the first and the last name; a worker lists those folders again.

    Args:
        address: of the folder; ids are paths below it.
        rows: images of a shard.
    """

    holds_images = True

    def __init__(self, address: str, rows: int = SHARD_ROWS) -> None:
        self.address, self.rows = address, rows
        self._listed = Remembered(listed_images)

    def schema(self) -> Any:
        """Path, topmost folder, bytes and time of the file."""
        import pyarrow as arrow

        kinds = {
            "id": arrow.string(),
            "label": arrow.string(),
            "size": arrow.int64(),
            "time": arrow.timestamp("us"),
        }
        return arrow.schema(list(kinds.items()))

    def shards(self) -> Sequence[Shard]:
        """Runs of files, so many rows together."""
        found: list[Shard] = []
        files = walk(place_of(self.address))
        while group := list(itertools.islice(files, self.rows)):
            runs = []
            for where, run in itertools.groupby(group, key=lambda pair: pair[0]):
                names = [file.name for _, file in run]
                runs.append([where.name, names[0], names[-1]])
            sizes = "\n".join(f"{file.name}\0{file.size}" for _, file in group)
            found.append(shard_of(self.address, runs, len(group), sizes))
        if not found:
            raise InputError(
                f"{self.address} holds no images; expected files that end in "
                f"{', '.join(FORMAT_OF)}"
            )
        return found

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The files of a shard, read so many at a time."""
        place = place_of(self.address)
        files = [one for run in shard.part for one in self._files(*run)]
        if len(files) != shard.rows:
            raise InputError(
                f"{self.address} changed while it was read: {len(files)} images where "
                f"there were {shard.rows}, from {shard.part[0][1]} on"
            )
        threads = 1 if place.is_local else READERS
        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(files), CHUNK_ROWS):
                yield _chunk(place, files[start : start + CHUNK_ROWS], pool)

    def _files(self, folder: str, first: str, last: str) -> list[tuple[str, Entry]]:
        """Paths and file information of a run."""
        below = f"{folder}/" if folder else ""
        return [
            (below + file.name, file)
            for file in self._listed(self.address, folder)
            if first <= file.name <= last
        ]


class Folder(NamedTuple):
    """A folder on the way."""

    name: str
    """Its path below the source; empty for the source itself."""
    number: int
    """How many folders lay between: files after a folder are another run."""


def walk(
    place: Place, below: str = "", above: frozenset[str] = frozenset()
) -> Iterator[tuple[Folder, Entry]]:
    """Folder and entry of all images, in the sorted order of their paths.

    Links to folders are followed, unless they lead back to where we came from.
    """
    real = os.path.realpath(place.path) if place.is_local else place.path
    if real in above:
        return
    number = 0
    entries = place.listed()
    for one in sorted(entries, key=lambda one: one.name + "/" * (not one.is_file)):
        if not one.is_file:
            number += 1
            name = posixpath.join(below, one.name)
            yield from walk(place.below(one.name), name, above | {real})
        elif is_image(one.name):
            yield Folder(below, number), one


def listed_images(address: str, folder: str) -> list[Entry]:
    """The images right in a folder, sorted."""
    place = place_of(address).below(folder)
    files = [one for one in place.listed() if one.is_file and is_image(one.name)]
    return sorted(files, key=lambda one: one.name)


def _chunk(
    place: Place, files: Sequence[tuple[str, Entry]], pool: ThreadPoolExecutor
) -> Chunk:
    import pyarrow as arrow

    names = [name for name, _ in files]
    data = list(pool.map(lambda name: place.below(name).read(), names))
    times = [file.time and _plain_time(file.time) for _, file in files]
    tops = [name.partition("/") for name in names]
    labels = [storable(top) if slash else None for top, slash, _ in tops]
    columns = {
        "label": arrow.array(labels, arrow.string()),
        "size": arrow.array([file.size for _, file in files], arrow.int64()),
        "time": arrow.array(times, arrow.timestamp("us")),
    }
    return Chunk([storable(name) for name in names], data, arrow.table(columns))


def _plain_time(moment: datetime.datetime) -> datetime.datetime:
    """In UTC without saying so, as indexes keep times."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)

"""Images in folders on any file system; the folder of a class is a shard."""

import os
import posixpath
from collections.abc import Iterator, Sequence

import numpy as np

from gradsnap.data.folders import is_image
from gradsnap.data.shards.reader import Listed, Shard, Wanted
from gradsnap.places import Place, place_of


class ClassFolders:
    """One folder of images a class, at any depth below it.

    Args:
        address: of the folder that holds them.
    """

    holds_images = True
    reads_whole = False

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_local = self.forks = place_of(address).is_local

    def shards(self) -> Sequence[Shard]:
        """The folders of classes, sorted; what lies beside them has no class."""
        entries = place_of(self.address).listed()
        return [Shard(one) for one in sorted(e.name for e in entries if not e.is_file)]

    def listed(self, shard: Shard) -> Listed:
        """The images of a class, in the sorted order of their paths."""
        keys = sorted(images_in(place_of(self.address).below(shard.name)))
        places = np.empty((len(keys), 0), dtype=np.int64)
        return Listed(keys, [shard.name] * len(keys), places)

    def content(self, shard: Shard) -> None:
        """Listing takes no time."""

    def read(self, shard: Shard, wanted: Sequence[Wanted]) -> list[bytes]:
        """The bytes of image files."""
        folder = place_of(self.address).below(shard.name)
        return [folder.below(one.key).read() for one in wanted]

    def name(self, shard: Shard, key: str, row: int) -> str:
        """The path below the source."""
        return f"{shard.name}/{key}"


def images_in(
    place: Place, below: str = "", above: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Paths of the images below a folder; links that lead back are not followed."""
    real = os.path.realpath(place.path) if place.is_local else place.path
    if real in above:
        return
    for one in place.listed():
        name = posixpath.join(below, one.name)
        if not one.is_file:
            yield from images_in(place.below(one.name), name, above | {real})
        elif is_image(one.name):
            yield name

"""Tar files of images with labels beside them, as WebDataset has them."""

import contextlib
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradsnap.data.folders import is_image
from gradsnap.data.shards.reader import Listed, Shard, Wanted
from gradsnap.errors import FileFormatError
from gradsnap.places import place_of
from gradsnap.remembered import Remembered

OPEN_FILES = 64
STREAMED = 2**20
"""Bytes that are asked for at once where a file comes over a network."""

LABEL = ".cls"
MOST_LABEL = 4096
"""Bytes of a label; more are not read."""


class TarShards:
    """Images in tar files, found by their headers and read where they lie.

    Files of one sample follow each other and are called alike up to the first dot:
    ``000017.jpg``, ``000017.cls``, whose text is the name or number of the class.

    Args:
        address: of the source.
        paths: of the tar files on its file system.
    """

    holds_images = True
    reads_whole = False

    def __init__(self, address: str, paths: Sequence[str]) -> None:
        self.address, self.paths = address, tuple(paths)
        self.is_local = self.forks = place_of(address).is_local
        self._files = Remembered(opened_file, OPEN_FILES)

    def shards(self) -> Sequence[Shard]:
        """One shard a file."""
        return [Shard(posixpath.basename(path), (path,)) for path in self.paths]

    def listed(self, shard: Shard) -> Listed:
        """The samples that have an image; of a local file headers alone are read."""
        with self._archive(shard.part[0]) as archive:
            found = list(samples_of(archive))
        places = np.array([one.place for one in found], dtype=np.int64).reshape(-1, 2)
        return Listed([one.key for one in found], [one.label for one in found], places)

    def content(self, shard: Shard) -> str:
        """Size and time of the file; over a network all of it is read to be listed."""
        found = place_of(self.address).filesystem.get_file_info(shard.part[0])
        return f"{found.size} {found.mtime_ns}"

    def read(self, shard: Shard, wanted: Sequence[Wanted]) -> list[bytes]:
        """The bytes of images, by offset and length."""
        file = self._files(self.address, shard.part[0])
        found = []
        for one in wanted:
            offset, size = one.place.tolist()
            found.append(file.read_at(size, offset))
            if len(found[-1]) != size:
                raise FileFormatError(f"{shard.name} ends inside of {one.key}")
        return found

    def name(self, shard: Shard, key: str, row: int) -> str:
        """The tar file and the sample."""
        return f"{shard.name}/{key}"

    @contextlib.contextmanager
    def _archive(self, path: str) -> Iterator[tarfile.TarFile]:
        mode: Any = "r:" if self.is_local else "r|"
        try:
            with (
                self._opened(path) as file,
                tarfile.open(fileobj=file, mode=mode, bufsize=STREAMED) as archive,
            ):
                yield archive
        except (tarfile.TarError, OSError, ValueError) as error:
            raise FileFormatError(f"{path} is truncated or no tar: {error}") from error

    def _opened(self, path: str) -> Any:
        """Here a file, whose images are leapt over; elsewhere a stream of all of it."""
        if self.is_local:
            return Path(path).open("rb")
        return place_of(self.address).filesystem.open_input_stream(path)


class Sample(NamedTuple):
    """An image and what lies beside it."""

    key: str
    label: str | None = None
    place: tuple[int, int] | None = None
    """Where the image's bytes begin in the file, and how many there are."""


def samples_of(archive: tarfile.TarFile) -> Iterator[Sample]:
    """The samples of an archive that have an image, in order."""
    sample = Sample("")
    for member in archive:
        base = posixpath.basename(member.name)
        if not member.isfile() or base.startswith("."):
            continue
        key = sample_key(member.name)
        if key != sample.key:
            if sample.place is not None:
                yield sample
            sample = Sample(key)
        sample = _with_member(sample, archive, member)
    if sample.place is not None:
        yield sample


def sample_key(member: str) -> str:
    """What files of one sample share: the path up to the first dot of the name.

    >>> sample_key("photos/000017.seg.png")
    'photos/000017'
    """
    folder, _, base = member.rpartition("/")
    return posixpath.join(folder, base.partition(".")[0])


def _with_member(
    sample: Sample, archive: tarfile.TarFile, member: tarfile.TarInfo
) -> Sample:
    if is_image(member.name):
        return sample._replace(place=(member.offset_data, member.size))
    if posixpath.splitext(member.name)[1].lower() != LABEL:
        return sample
    file = archive.extractfile(member)
    text = b"" if file is None else file.read(MOST_LABEL)
    return sample._replace(label=text.decode("utf-8", "replace").strip() or None)


def opened_file(address: str, path: str) -> Any:
    """A file that is read at any offset."""
    return place_of(address).filesystem.open_input_file(path)

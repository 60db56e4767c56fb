"""Tar files of images with what is known of each beside it, as WebDataset has them."""

import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any

from gradsnap.data.folders import is_image
from gradsnap.data.shards.tar_shards import sample_key
from gradsnap.errors import FileFormatError
from gradsnap.places import place_of
from gradsnap.scale.shard import CHUNK_ROWS, Chunk, Shard, shard_of

BESIDE = {".cls": "label", ".txt": "text", ".json": "json"}
"""Files beside an image, and the columns they become."""


class TarFiles:
    """Images in tar files; a file is a shard, read from its beginning to its end.

    Files of one sample follow each other and are called alike up to the first dot:
    ``000017.jpg``, ``000017.cls``. Its id is the tar file's name and that name.

    Args:
        address: of the file, or of the folder they lie in.
        paths: of the files on its file system.
    """

    holds_images = True

    def __init__(self, address: str, paths: Sequence[str]) -> None:
        self.address, self.paths = address, tuple(paths)

    def schema(self) -> Any:
        """Strings all: id, label, text, and JSON as it was written."""
        import pyarrow as arrow

        names = ["id", *BESIDE.values()]
        return arrow.schema([(name, arrow.string()) for name in names])

    def shards(self) -> Sequence[Shard]:
        """One shard a file; how many images it holds, nobody knows before."""
        found = place_of(self.address).filesystem.get_file_info(list(self.paths))
        return [shard_of(self.address, one.path, 0, str(one.size)) for one in found]

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The images of a file."""
        rows: list[tuple[str, bytes, dict[str, str]]] = []
        for sample in self._samples(shard.part):
            rows.append(sample)
            if len(rows) == CHUNK_ROWS:
                yield _chunk(rows)
                rows = []
        if rows:
            yield _chunk(rows)

    def _samples(self, path: str) -> Iterator[tuple[str, bytes, dict[str, str]]]:
        """Id, bytes and columns of one image after the other."""
        name = posixpath.basename(path)
        key, image = "", None
        beside: dict[str, str] = {}
        for member, data in self._members(path):
            base, own = posixpath.basename(member), sample_key(member)
            if own != key:
                if image is not None:
                    yield f"{name}/{key}", image, beside
                key, image, beside = own, None, {}
            ending = posixpath.splitext(base)[1].lower()
            if is_image(base):
                image = data
            elif ending in BESIDE:
                beside[BESIDE[ending]] = data.decode("utf-8", "replace").strip()
        if image is not None:
            yield f"{name}/{key}", image, beside

    def _members(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of each regular file; nothing is unpacked to disk."""
        try:
            with (
                place_of(self.address).filesystem.open_input_stream(path) as stream,
                tarfile.open(fileobj=stream, mode="r|") as archive,
            ):
                for member in archive:
                    file = archive.extractfile(member) if member.isfile() else None
                    if file is not None:
                        yield member.name, file.read()
        except tarfile.TarError as error:
            raise FileFormatError(f"{path} is truncated or no tar: {error}") from error


def _chunk(rows: list[tuple[str, bytes, dict[str, str]]]) -> Chunk:
    import pyarrow as arrow

    columns = {
        name: arrow.array([one[2].get(name) for one in rows], arrow.string())
        for name in BESIDE.values()
    }
    return Chunk([r[0] for r in rows], [r[1] for r in rows], arrow.table(columns))

"""Where data lie: a path here, or an address that pyarrow or fsspec opens."""

import contextlib
import datetime
import functools
import os
import posixpath
from collections.abc import Iterator
from typing import Any, NamedTuple

from gradsnap.errors import InputError


class Entry(NamedTuple):
    """What a folder holds."""

    name: str
    is_file: bool
    size: int
    """Bytes of a file."""
    time: datetime.datetime | None
    """When it was last changed, with its time zone."""


class Place(NamedTuple):
    """A file or folder on some file system."""

    filesystem: Any
    """A ``pyarrow.fs.FileSystem``."""
    path: str
    """On it, with "/" between folders."""

    def below(self, name: str) -> "Place":
        """A file or folder in this folder."""
        return self._replace(path=posixpath.join(self.path, name))

    def read(self) -> bytes:
        """All bytes of the file."""
        with self.filesystem.open_input_stream(self.path) as file:
            data: bytes = file.read()
            return data

    def write(self, data: bytes) -> None:
        """Writes the file, and the folder it lies in."""
        self.filesystem.create_dir(posixpath.dirname(self.path), recursive=True)
        with self.filesystem.open_output_stream(self.path) as file:
            file.write(data)

    def remove(self) -> None:
        """Removes the file, if it is there."""
        if self.is_file:
            self.filesystem.delete_file(self.path)

    def listed(self) -> list["Entry"]:
        """What lies right in the folder, but for what has a dot in front."""
        if self.is_local:
            found = _listed_here(self.path)
        else:
            from pyarrow.fs import FileSelector

            infos = self.filesystem.get_file_info(FileSelector(self.path))
            found = [
                Entry(one.base_name, bool(one.is_file), one.size or 0, one.mtime)
                for one in infos
            ]
        return [one for one in found if not one.name.startswith(".")]

    @property
    def is_file(self) -> bool:
        """Whether a file is there."""
        return bool(self.filesystem.get_file_info(self.path).is_file)

    @property
    def is_folder(self) -> bool:
        """Whether a folder is there; on object stores, whether anything is below."""
        from pyarrow.fs import FileType

        found = self.filesystem.get_file_info(self.path)
        return bool(found.type == FileType.Directory)

    @property
    def is_local(self) -> bool:
        """Whether it lies on this machine's own file system."""
        from pyarrow.fs import LocalFileSystem

        return isinstance(self.filesystem, LocalFileSystem)


def _listed_here(path: str) -> list[Entry]:
    """Entries of a folder of this machine, whatever bytes their names hold."""
    found = []
    with os.scandir(path) as entries:
        for one in entries:
            if one.is_symlink() and not os.path.exists(one.path):
                continue  # a link to nowhere
            stat = one.stat()
            time = datetime.datetime.fromtimestamp(stat.st_mtime, datetime.UTC)
            found.append(Entry(one.name, one.is_file(), stat.st_size, time))
    return found


@contextlib.contextmanager
def reaching(address: str) -> Iterator[None]:
    """A file system that does not answer, or not so, is one sentence.

    Raises:
        InputError: what lies at the address cannot be read.
    """
    try:
        yield
    except OSError as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"{address} cannot be read: {first}") from error


def place_of(word: str | os.PathLike[str]) -> Place:
    """The place of a path, or of an address such as ``s3://bucket/photos``.

    Raises:
        InputError: no file system is known by that scheme.
    """
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem, FSSpecHandler, LocalFileSystem, PyFileSystem

    text = os.fspath(word)
    if "://" not in text:
        return Place(LocalFileSystem(), os.path.abspath(text))
    try:
        return Place(*FileSystem.from_uri(text))
    except (ArrowException, ValueError):
        pass  # a scheme that only fsspec may know
    try:
        found, path = _by_fsspec(text)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(
            f"{text} cannot be opened: {error}; addresses are those of pyarrow "
            "(file, s3, gs, hdfs, abfs) and of fsspec with its own packages"
        ) from error
    return Place(PyFileSystem(FSSpecHandler(found)), path)


@functools.lru_cache(8)  # an archive is closed when its file system is let go
def _by_fsspec(text: str) -> tuple[Any, str]:
    """The file system of fsspec that an address names, and the path on it."""
    from fsspec.core import url_to_fs

    found: tuple[Any, str] = url_to_fs(text)
    return found

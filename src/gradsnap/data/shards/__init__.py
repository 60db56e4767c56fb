"""Sources in shards: tar files, Parquet, Lance tables, and folders anywhere.

Each process lists and reads shards of its own, and nobody holds the names of all.
"""

import os

from gradsnap.data.folders import is_image
from gradsnap.data.images import ImageOptions
from gradsnap.data.shards.class_folders import ClassFolders
from gradsnap.data.shards.lance_shards import TABLE, LanceShards
from gradsnap.data.shards.lanes import LANES, Lanes
from gradsnap.data.shards.parquet_shards import ParquetShards
from gradsnap.data.shards.part import Part, ShardedDataset, Summary, list_part
from gradsnap.data.shards.reader import ShardReader
from gradsnap.data.shards.tar_shards import TarShards
from gradsnap.errors import InputError
from gradsnap.places import Place, place_of, reaching


def open_shards(
    root: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> ShardedDataset:
    """A source in shards as one data set, all of it in this process.

    Args:
        root: a ``.tar`` or ``.parquet`` file or a folder of them, a ``.lance`` table,
            or a folder with a folder for each class; a path, or an address such as
            ``s3://bucket/photos``.
        options: how images are read.

    Raises:
        InputError: nothing is there, a shard is empty, or a label is missing.
        FileFormatError: a file is truncated or not in the format of its name.
    """
    if root is None:
        raise InputError("name the folder, file or table that holds the shards")
    part = list_part(reader_of(os.fspath(root)), options or ImageOptions())
    return part.dataset([part.summary()])


def reader_of(address: str) -> ShardReader:
    """What lists and reads the shards at an address.

    Raises:
        InputError: there is no such folder or file.
    """
    with reaching(address):
        return _reader_of(address, place_of(address))


def _reader_of(address: str, place: Place) -> ShardReader:
    if address.rstrip("/").endswith(TABLE):
        return LanceShards(address.rstrip("/"))
    path = place.path.rstrip("/")  # an address may go on, as in zip://a.tar::b.zip
    if path.endswith((".tar", ".parquet")) and not place.is_folder:
        _check_file(place, address)
        kind = TarShards if path.endswith(".tar") else ParquetShards
        return kind(address, [place.path])
    if not place.is_folder:
        raise InputError(f"there is no folder {address!r} of shards")
    return _folder(address, place)


def holds_shards(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder of this machine holds tar or Parquet files, and no images."""
    with os.scandir(folder) as entries:
        seen = [one for one in entries if not one.name.startswith(".")]
    endings = {os.path.splitext(one.name)[1] for one in seen}
    other = any(one.is_dir() or is_image(one.name) for one in seen)
    return bool(endings & {".tar", ".parquet"}) and not other


def _folder(address: str, place: Place) -> ShardReader:
    """A folder by what lies right in it: tar files, Parquet, or folders of classes."""
    names = sorted(one.name for one in place.listed() if one.is_file)
    for ending, kind in ((".tar", TarShards), (".parquet", ParquetShards)):
        paths = [place.below(name).path for name in names if name.endswith(ending)]
        if paths:
            return kind(address, paths)
    return ClassFolders(address)


def _check_file(place: Place, address: str) -> None:
    if not place.is_file:
        raise InputError(f"there is no file {address!r}")


__all__ = [
    "LANES",
    "Lanes",
    "Part",
    "ShardReader",
    "ShardedDataset",
    "Summary",
    "holds_shards",
    "list_part",
    "open_shards",
    "reader_of",
]

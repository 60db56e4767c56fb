"""Sources that are read shard by shard: one file a kind."""

from pathlib import Path

from gradsnap.data import DATASETS
from gradsnap.data.vectors import READERS
from gradsnap.errors import InputError
from gradsnap.places import place_of
from gradsnap.scale.kinds import is_table
from gradsnap.scale.shard import SHARD_ROWS, Source
from gradsnap.scale.sources.image_folder import ImageFolder
from gradsnap.scale.sources.lance_rows import LanceRows
from gradsnap.scale.sources.named import NamedDataset
from gradsnap.scale.sources.npy_file import NpyFile
from gradsnap.scale.sources.parquet_files import ParquetFiles
from gradsnap.scale.sources.tar_files import TarFiles


def open_source(
    word: str,
    root: str | None = None,
    size: tuple[int | None, int | None] = (None, None),
    rows: int = SHARD_ROWS,
) -> Source:
    """The source at a path or address, or a data set by its name.

    Args:
        word: a folder of images, Parquet or tar files; a ``.parquet``, ``.tar``,
            ``.npy`` file; a ``.lance`` table; the name of a data set, or another file
            of vectors on this machine.
        root: the folder of a data set that is given by name.
        size: side and channels of images that a data set keeps in memory.
        rows: of a shard, where the source leaves the choice; a tar file is one, a
            fragment of a table too.

    Raises:
        InputError: nothing is there, or nothing that is known.
    """
    if word in DATASETS:
        return NamedDataset(word, root, size, rows)
    place = place_of(word)
    if is_table(word):
        return LanceRows(word.rstrip("/"))
    path = place.path.rstrip("/")  # an address may go on, as in zip://a.tar::b.zip
    if path.endswith(".npy"):
        return NpyFile(word, None if rows == SHARD_ROWS else rows)
    if path.endswith(".parquet"):
        return ParquetFiles(word, [place.path], rows)
    if path.endswith(".tar"):
        return TarFiles(word, [place.path])
    if Path(path).suffix in READERS and place.is_file:
        return NamedDataset(word, None, size, rows)
    if not place.is_folder:
        raise InputError(
            f"there is no folder {word!r} to encode; a source is a folder of images, "
            "Parquet or tar files, one such file, .npy or another file of vectors, a "
            ".lance table or the name of a data set"
        )
    return _folder(word, rows)


def _folder(word: str, rows: int) -> Source:
    """A folder by what lies right in it: Parquet, tar shards, or images."""
    place = place_of(word)
    names = sorted(place.below(one.name).path for one in place.listed() if one.is_file)
    parquet, tar = (
        [name for name in names if name.endswith(ending)]
        for ending in (".parquet", ".tar")
    )
    if parquet:
        return ParquetFiles(word, parquet, rows)
    return TarFiles(word, tar) if tar else ImageFolder(word, rows)

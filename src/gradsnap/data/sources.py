"""One call that opens a data set by its name, or a folder or file by its path."""

import os
from pathlib import Path
from typing import Protocol

from gradsnap.data import cifar10, ilsvrc, mnist
from gradsnap.data.cifar10 import open_cifar10
from gradsnap.data.dataset import Dataset
from gradsnap.data.digits import open_digits
from gradsnap.data.folders import is_image, open_folder
from gradsnap.data.ilsvrc import open_ilsvrc
from gradsnap.data.images import ImageOptions
from gradsnap.data.label_lists import beside_images, open_csv
from gradsnap.data.mnist import open_mnist
from gradsnap.data.nuswide import open_nuswide
from gradsnap.data.shards import holds_shards, open_shards
from gradsnap.data.shards.lance_shards import TABLE
from gradsnap.data.table_columns import holds_images
from gradsnap.data.vectors import READERS, open_vectors
from gradsnap.errors import InputError

Root = str | os.PathLike[str] | None


class Opener(Protocol):
    """Opens what lies at a root."""

    def __call__(self, root: Root, options: ImageOptions | None = None, /) -> Dataset:
        """The data set at a root, with its images read as the options say."""
        ...


DATASETS: dict[str, Opener] = {
    "digits": open_digits,
    "mnist": open_mnist,
    "cifar10": open_cifar10,
    "nuswide": open_nuswide,
    "ilsvrc2012": open_ilsvrc,
    "folder": open_folder,
    "csv": open_csv,
    "vectors": open_vectors,
    "sharded": open_shards,
}
"""Every kind of data by its name; being in here is being tested."""

MARKS: dict[str, str] = {
    mnist.MARK: "mnist",
    cifar10.MARK: "cifar10",
    "nuswide*train.txt": "nuswide",
    "ImageList/Imagelist.txt": "nuswide",
    "labels.csv": "csv",
    ilsvrc.MARK: "ilsvrc2012",
}
"""What a folder holds, and of which data set that is the mark."""


def open_dataset(
    source: str | os.PathLike[str],
    root: Root = None,
    *,
    side: int | None = None,
    channels: int | None = None,
    skip_bad: bool = False,
    labelled: bool = True,
) -> Dataset:
    """Opens a data set: by name with its root, or any folder or file of yours.

    Args:
        source: one of the names in ``DATASETS``; or the path of a folder of classes, of
            one image, of a known data set's folder, of a file of vectors (``.npy``,
            ``.npz``, ``.fvecs``, ``.bvecs``, ``.parquet``), of a table ``.csv`` of
            images and labels, or of what is read in shards: tar or Parquet files of
            images or a folder of them, a ``.lance`` table, an address such as
            ``s3://bucket/photos``. A folder that has the name of a data set is opened
            as ``./name``.
        root: the folder, or file, of a data set that is given by name.
        side: images are resized to side × side pixels; None keeps their size.
        channels: 3 for colour, 1 for grey; None keeps what is stored.
        skip_bad: leave out bad image files, and count them in ``skipped``.
        labelled: leave out images beside class folders, since they have no class;
            False, for an index, keeps them, and then no image has a label.

    Raises:
        InputError: unknown name, missing path, or data that cannot be used.
        FileFormatError: a file that is truncated or not in the format of its name.

    Example:
        >>> open_dataset("digits", side=16).item_shape
        (1, 16, 16)
    """
    options = ImageOptions(side, channels, skip_bad, labelled)
    if source in DATASETS:
        return DATASETS[os.fspath(source)](root, options)
    if root is not None:
        raise InputError(f"unknown data set {source!r}; {_choices()}")
    return DATASETS[_kind_of(os.fspath(source))](source, options)


def shards_at(source: str, root: Root = None) -> str | None:
    """Where the shards of a source lie; None where it is not one in shards."""
    if source in DATASETS:
        return os.fspath(root) if source == "sharded" and root is not None else None
    if root is not None or not (_is_address(source) or os.path.exists(source)):
        return None
    return source if _kind_of(source) == "sharded" else None


def _is_address(source: str) -> bool:
    return "://" in source


def _kind_of(source: str) -> str:
    """The name of the kind of data at a path or address."""
    path = Path(source)
    if _is_address(source) or (path.suffix == TABLE and path.exists()):
        return "sharded"
    if path.is_dir():
        return _kind_of_folder(path)
    if not path.exists():
        raise InputError(f"there is no file or folder {str(path)!r}; {_choices()}")
    if path.suffix == ".csv":
        return "csv"
    if path.suffix == ".tar" or (path.suffix == ".parquet" and holds_images(source)):
        return "sharded"
    if path.suffix in READERS:
        return "vectors"
    if is_image(path.name):
        return "folder"
    raise InputError(
        f"{path} ends in {path.suffix!r}; a file is read if it is an image or ends in "
        f"{', '.join(READERS)}, .tar or .csv"
    )


def _kind_of_folder(path: Path) -> str:
    if beside_images(path) is not None:
        return "csv"
    marks = (name for mark, name in MARKS.items() if any(path.glob(mark)))
    return next(marks, "sharded" if holds_shards(path) else "folder")


def _choices() -> str:
    return f"known data sets are {', '.join(DATASETS)}, or give a path"

"""Folders of images: one folder a class, or one flat folder without labels."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from gradsnap.data.dataset import Dataset
from gradsnap.data.images import ImageOptions, Listing, image_dataset
from gradsnap.errors import InputError

IMAGE_SUFFIXES = (
    *(".bmp", ".gif", ".jpeg", ".jpg", ".pgm"),
    *(".png", ".ppm", ".tif", ".tiff", ".webp"),
)

IGNORED = frozenset({"Thumbs.db", "desktop.ini"})
"""What file managers leave behind; names that begin with a dot are ignored too."""


def open_folder(
    root: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """A folder with one folder of images a class, at any depth below it.

    Classes are numbered in the sorted order of their names, and images in the sorted
    order of their paths, the same on every machine. A folder that holds images and no
    folders opens without labels, to be encoded or indexed.

    Raises:
        InputError: no such folder, no images, or files that are not images and
            ``options.skip_bad`` is not given.
    """
    if root is None or not Path(root).is_dir():
        raise InputError(f"expected a folder of images, got {root}")
    folder = Path(root)
    listing = scan(folder) if class_folders(folder) else _flat(folder)
    return image_dataset(os.fspath(root), folder, listing, options or ImageOptions())


def find_root(
    name: str, root: str | os.PathLike[str] | None, folders: Sequence[str], mark: str
) -> Path:
    """The folder with files that match ``mark``: ``root``, or a known folder in it.

    Args:
        name: the data set's, for the error.
        root: what the user named.
        folders: where the publishers' archives put the files below it.
        mark: a pattern of a file that is always there.

    Raises:
        InputError: no root, or no such files in it.
    """
    if root is None:
        raise InputError(f"{name} needs root, the folder that holds its {mark}")
    for folder in (Path(root), *(Path(root) / folder for folder in folders)):
        if folder.is_dir() and any(folder.glob(mark)):
            return folder
    raise InputError(
        f"there is no {mark} of {name} in {root}, nor in its folders "
        f"{', '.join(folders)}"
    )


def class_folders(root: Path) -> list[str]:
    """Sorted names of the folders in ``root``."""
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_dir() and not entry.name.startswith(".")
        )


def scan(root: Path, within: str = "") -> Listing:
    """The images in the class folders of ``root/within``, named from ``root``."""
    names: list[str] = []
    labels: list[int] = []
    classes: list[str] = []
    bad = [name for name in files_in(root, within, deep=False) if is_image(name)]
    for folder in class_folders(root / within):
        files = files_in(root, f"{within}/{folder}" if within else folder)
        images = [name for name in files if is_image(name)]
        bad += [name for name in files if not is_image(name)]
        if not images:
            bad.append(f"{folder}/ without images")
            continue
        names += images
        labels += [len(classes)] * len(images)
        classes.append(folder)
    return Listing(names, torch.tensor(labels).long(), tuple(classes), bad=tuple(bad))


def files_in(root: Path, folder: str, deep: bool = True) -> list[str]:
    """Sorted paths from ``root`` of the files in one of its folders, or below it."""
    found: list[str] = []
    for path, folders, files in os.walk(root / folder, onerror=_refuse):
        folders[:] = [name for name in folders if deep and not name.startswith(".")]
        place = Path(path).relative_to(root).as_posix()
        prefix = "" if place == "." else f"{place}/"
        found += [prefix + name for name in files if not _is_ignored(name)]
    return sorted(found)


def is_image(name: str) -> bool:
    """Whether the name ends as an image's."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def _flat(root: Path) -> Listing:
    images = [name for name in files_in(root, "") if is_image(name)]
    if not images:
        raise InputError(
            f"{root} holds no images; expected one folder for each class, with files "
            f"that end in {', '.join(IMAGE_SUFFIXES)}"
        )
    return Listing(images, None, ())


def _refuse(error: OSError) -> None:
    raise InputError(f"cannot read the folder {error.filename}: {error.strerror}")


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in IGNORED

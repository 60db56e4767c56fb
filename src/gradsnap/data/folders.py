"""Images in folders: one folder a class, one flat folder, or any list of files."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from gradsnap.data.dataset import Dataset, Items
from gradsnap.data.images import FORMAT_OF, ImageFiles, ImageOptions, sort_files
from gradsnap.errors import GradsnapError, InputError
from gradsnap.progress import track
from gradsnap.strings import PackedStrings, shown

logger = logging.getLogger(__name__)

BLOCK = 1024
"""Images that are checked between two steps of the progress bar."""

SHOWN = 3
"""Names shown in a message."""


@dataclass(frozen=True, eq=False)
class Listing:
    """What a layout on disk says: which images there are, and their labels."""

    names: Sequence[str]
    """Paths of the n images below a root, with "/" between folders."""

    labels: Tensor | None
    """int64 (n,), or multi-hot bool (n, L); None where there are no labels."""

    classes: tuple[str, ...]
    """The name of each class, or of each of the L labels."""

    held_out: Tensor | None = None
    """bool (n,): what the publisher set apart for testing."""

    loose: tuple[str, ...] = ()
    """Images beside the class folders; they have no class, and are not in names."""

    unreadable: tuple[str, ...] = ()
    """Images of a kind that nothing here decodes."""

    broken: tuple[str, ...] = ()
    """Images that were decoded, and failed."""

    ignored: tuple[str, ...] = ()
    """Files that are not images by their names, and folders without any file."""

    def left_out(self) -> dict[str, tuple[str, ...]]:
        """What the data set will not hold, by the reason."""
        return {
            "not named as images": self.ignored,
            "of kinds that nothing here decodes (HEIC: pip install 'gradsnap[heif]')": (
                self.unreadable
            ),
            "beside the class folders, so without a class": self.loose,
            "that cannot be decoded": self.broken,
        }


def open_folder(
    root: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """A folder with one folder of images a class, at any depth below it.

    Classes are numbered in the sorted order of their names, and images in the sorted
    order of their paths, the same on every machine. Links to folders are followed. A
    folder that holds images and no folders of images opens without labels. So does a
    single image file.

    Images that lie beside class folders have no class, and are left out; with
    ``options.labelled=False`` all images are kept, and then none has a label. Files
    that are not images by their names are left out; so are images of a kind that
    nothing here decodes. All are counted, and logged in a line.

    Raises:
        InputError: no such folder, or no images.
    """
    options = options or ImageOptions()
    if root is not None and is_image(os.fspath(root)) and Path(root).is_file():
        return _single_image(Path(root), options)
    if root is None or not Path(root).is_dir():
        raise InputError(f"expected a folder of images, got {root}")
    folder = Path(root)
    listing = scan(folder)
    if not listing.names or (listing.loose and not options.labelled):
        names = sorted([*listing.names, *listing.loose])
        listing = replace(listing, names=names, labels=None, classes=(), loose=())
    if not listing.names and not listing.unreadable:
        raise InputError(
            f"{root} holds no images; expected one folder for each class, with files "
            f"that end in {', '.join(FORMAT_OF)}"
        )
    return image_dataset(os.fspath(root), folder, listing, options)


def _single_image(path: Path, options: ImageOptions) -> Dataset:
    """One image file, named below the folder it lies in."""
    files = sort_files([path.name])
    listing = Listing(files.images, None, (), unreadable=tuple(files.unreadable))
    return image_dataset(os.fspath(path), path.parent, listing, options)


def scan(root: Path, within: str = "") -> Listing:
    """The images in the class folders of ``root/within``, named from ``root``."""
    names: list[str] = []
    labels: list[int] = []
    classes: list[str] = []
    beside = sort_files(files_in(root, within, deep=False))
    unreadable, ignored = beside.unreadable, beside.others
    for folder in class_folders(root / within):
        place = f"{within}/{folder}" if within else folder
        files = sort_files(files_in(root, place))
        unreadable += files.unreadable
        ignored += files.others if any(files) else [f"{place}/"]
        if files.images:
            names += files.images
            labels += [len(classes)] * len(files.images)
            classes.append(folder)
    return Listing(
        names,
        torch.tensor(labels).long(),
        tuple(classes),
        loose=tuple(beside.images),
        unreadable=tuple(unreadable),
        ignored=tuple(ignored),
    )


def class_folders(root: Path) -> list[str]:
    """Sorted names of the folders in ``root``."""
    with os.scandir(root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_dir() and not entry.name.startswith(".")
        )


def files_in(root: Path, folder: str, deep: bool = True) -> list[str]:
    """Sorted paths from ``root`` of the files in one of its folders, or below it.

    Links to folders are followed; files and folders with a dot in front are hidden.
    """
    # A link may lead back to where we came from, so each real folder is read once.
    seen = {os.path.realpath(root / above) for above in PurePosixPath(folder).parents}

    def is_new(path: str) -> bool:
        real = os.path.realpath(path)
        known = real in seen
        seen.add(real)
        return not known

    start = os.path.join(root, folder)
    if not is_new(start):
        return []
    found: list[str] = []
    for path, folders, files in os.walk(start, onerror=_refuse, followlinks=True):
        folders[:] = [
            name
            for name in sorted(folders)
            if deep and not name.startswith(".") and is_new(os.path.join(path, name))
        ]
        place = Path(path).relative_to(root).as_posix()
        prefix = "" if place == "." else f"{place}/"
        found += [prefix + name for name in files if not name.startswith(".")]
    return sorted(found)


def is_image(name: str) -> bool:
    """Whether the name ends as an image's."""
    return os.path.splitext(name)[1].lower() in FORMAT_OF


def image_dataset(
    name: str, root: Path, listing: Listing, options: ImageOptions
) -> Dataset:
    """The data set of a listing below ``root``; says in a line what it leaves out.

    With ``options.skip_bad`` every image is decoded once, here, and what fails is left
    out; without it a bad image is named by the error of the batch that holds it.

    Raises:
        InputError: there are no images.
    """
    if options.skip_bad:
        listing = _without_broken(root, listing, options)
    left_out = {why: names for why, names in listing.left_out().items() if names}
    for why, names in left_out.items():
        files = "1 file" if len(names) == 1 else f"{len(names)} files"
        logger.warning("%s: left out %s %s: %s", name, files, why, first_few(names))
    if not len(listing.names):
        reasons = "; ".join(f"{len(names)} {why}" for why, names in left_out.items())
        raise InputError(f"{root} holds no images that can be read: {reasons}")
    packed = PackedStrings.of(listing.names)
    return Dataset(
        name=name,
        items=ImageFiles(root, packed, options),
        names=packed,
        labels=listing.labels,
        classes=listing.classes,
        held_out=listing.held_out,
        skipped=(*listing.unreadable, *listing.loose, *listing.broken),
        ignored=len(listing.ignored),
    )


def first_few(names: Sequence[str]) -> str:
    """The first names of a list, for a message."""
    return ", ".join(map(shown, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")


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


def decodable(images: Items, source: str) -> list[bool]:
    """Which of n images can be decoded; done in threads, a block at a time."""

    def decodes(place: int) -> bool:
        try:
            images.batch(torch.tensor([place]))
        except GradsnapError:
            return False
        return True

    fine: list[bool] = []
    places = range(len(images))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in track(places[::BLOCK], f"checking the images of {source}"):
            fine += pool.map(decodes, places[start : start + BLOCK])
    return fine


def _without_broken(root: Path, listing: Listing, options: ImageOptions) -> Listing:
    images = ImageFiles(root, PackedStrings.of(listing.names), options)
    fine = decodable(images, str(root))
    good = torch.tensor(fine, dtype=torch.bool)
    pairs = list(zip(listing.names, fine, strict=True))
    return replace(
        listing,
        names=[name for name, decoded in pairs if decoded],
        labels=None if listing.labels is None else listing.labels[good],
        held_out=None if listing.held_out is None else listing.held_out[good],
        broken=tuple(name for name, decoded in pairs if not decoded),
    )


def _refuse(error: OSError) -> None:
    raise InputError(f"cannot read the folder {error.filename}: {error.strerror}")

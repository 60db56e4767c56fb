"""ILSVRC2012: train/<wnid>/*, and val/<wnid>/* or a flat val with its label file."""

import os
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import (
    Listing,
    class_folders,
    files_in,
    find_root,
    image_dataset,
    scan,
)
from gradsnap.data.images import ImageOptions, sort_files
from gradsnap.errors import FileFormatError, InputError

MARK = "train/*/"

FOLDERS = ("ILSVRC2012", "ilsvrc2012", "ILSVRC/Data/CLS-LOC")

LABEL_FILES = (
    "val.txt",
    "val_labels.txt",
    "LOC_val_solution.csv",
    "val/val_annotations.txt",
)


def open_ilsvrc(
    root: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """ILSVRC2012, or any data set in its layout; the validation images are held out.

    The images of ``val`` lie in one folder a class, or all together, with a file that
    has a line for each: its name, then its wnid or the number of its class in the
    sorted order of the wnids.

    Raises:
        InputError: the folders or the label file are missing, or a class of ``val`` is
            not one of ``train``.
    """
    base = find_root("ilsvrc2012", root, FOLDERS, MARK)
    train = scan(base, "train")
    validation = _validation(base, train.classes)
    if train.labels is None or validation.labels is None:
        raise InputError(f"{base} holds no labelled images")
    listing = Listing(
        names=[*train.names, *validation.names],
        labels=torch.cat([train.labels, validation.labels]),
        classes=train.classes,
        held_out=torch.arange(len(train.names) + len(validation.names))
        >= len(train.names),
        loose=(*train.loose, *validation.loose),
        unreadable=(*train.unreadable, *validation.unreadable),
        ignored=(*train.ignored, *validation.ignored),
    )
    return image_dataset("ilsvrc2012", base, listing, options or ImageOptions())


def _validation(base: Path, classes: tuple[str, ...]) -> Listing:
    if not (base / "val").is_dir():
        raise InputError(f"{base} has a folder train, but none called val")
    folders = class_folders(base / "val")
    if folders and not set(folders) - set(classes):
        return _renumber(scan(base, "val"), classes)
    files = sort_files(files_in(base, "val"))
    labels = _flat_labels(base, files.images, classes)
    return Listing(files.images, labels, classes, unreadable=tuple(files.unreadable))


def _renumber(listing: Listing, classes: tuple[str, ...]) -> Listing:
    """The listing with its classes numbered as in ``classes``."""
    numbers = torch.tensor([classes.index(name) for name in listing.classes]).long()
    labels = None if listing.labels is None else numbers[listing.labels]
    return replace(listing, labels=labels, classes=classes)


def _flat_labels(base: Path, files: list[str], classes: tuple[str, ...]) -> Tensor:
    found = [base / name for name in LABEL_FILES if (base / name).is_file()]
    if not found:
        raise InputError(
            f"the folders in {base / 'val'} are not the classes of train, and there is "
            f"no label file; expected one of {', '.join(LABEL_FILES)} in {base}"
        )
    labels = read_validation_labels(found[0], classes)
    stems = [PurePosixPath(name).stem for name in files]
    unknown = [
        name for name, stem in zip(files, stems, strict=True) if stem not in labels
    ]
    if unknown:
        raise FileFormatError(
            f"{found[0]} has no line for {len(unknown)} of {len(files)} images, the "
            f"first {unknown[0]}"
        )
    return torch.tensor([labels[stem] for stem in stems]).long()


def read_validation_labels(path: Path, classes: tuple[str, ...]) -> dict[str, int]:
    """The class of each image, by its name without suffix.

    Raises:
        FileFormatError: a line without a name and a class, or with an unknown class.
    """
    known = {wnid: number for number, wnid in enumerate(classes)}
    known |= {str(number): number for number in range(len(classes))}
    labels = {}
    for row, line in enumerate(path.read_text().splitlines()):
        words = re.split(r"[\s,]+", line.strip())
        if len(words) > 1 and words[1] in known:
            labels[PurePosixPath(words[0]).stem] = known[words[1]]
        elif words != ["ImageId", "PredictionString"]:
            raise FileFormatError(
                f"{path}, line {row + 1}: expected a file name, then a wnid or a "
                f"number in 0..{len(classes) - 1}; got {line[:80]!r}"
            )
    return labels

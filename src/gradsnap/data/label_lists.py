"""Lists of images with several labels each: lines of 0 and 1, or a CSV table."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import Listing, first_few, image_dataset
from gradsnap.data.images import ImageOptions
from gradsnap.errors import FileFormatError, InputError
from gradsnap.reading import reading

TABLE, IMAGES = "labels.csv", "images"
Rows = tuple[list[str], NDArray[np.bool_]]


def read_label_list(path: str | os.PathLike[str]) -> Rows:
    """File names, and multi-hot labels (n, L), of lines ``name 0 1 0 …``.

    Raises:
        FileFormatError: a line with another number of labels, or not of 0 and 1.
    """
    with reading(path, "a list"), Path(path).open(encoding="utf-8") as file:
        return _rows((line.split() for line in file), os.fspath(path))


def open_csv(
    path: str | os.PathLike[str] | None, options: ImageOptions | None = None
) -> Dataset:
    """A CSV table of images and their labels: a header ``image,<names…>``, then rows.

    Each row has an image's path and 0 or 1 for each label; or, where the header is
    ``image,label``, the path and the name of its class. Paths are relative to the
    folder of the table, or to the folder ``images`` in it.

    Args:
        path: the table, or a folder with a ``labels.csv``.
        options: how images are read.

    Raises:
        InputError: there is no such table, or its images are missing.
        FileFormatError: a row does not fit the header.
    """
    table = Path(path) if path is not None else Path(TABLE)
    table = beside_images(table) or table / TABLE if table.is_dir() else table
    if not table.is_file():
        raise InputError(f"there is no table {table}")
    options = options or ImageOptions()
    listing = _read_table(table)
    root = image_root(table.parent, listing.names, ("", IMAGES))
    check_present(root, listing.names, options)
    return image_dataset(os.fspath(table), root, listing, options)


def beside_images(folder: Path) -> Path | None:
    """The table above a folder ``images``, as data sets are often laid out."""
    full = Path(os.path.abspath(folder))
    table = full.parent / TABLE
    return table if full.name == IMAGES and table.is_file() else None


def image_root(base: Path, names: Sequence[str], folders: Iterable[str]) -> Path:
    """The first folder of ``base`` that holds the first listed image there is."""
    places = [base / folder for folder in folders]
    for name in names:
        for place in places:
            if (place / name).is_file():
                return place
    return base


def check_present(root: Path, names: Sequence[str], options: ImageOptions) -> None:
    """Refuses a list that names missing files, unless they are to be skipped."""
    if options.skip_bad:
        return
    missing = [name for name in names if not (root / name).is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(names)} listed images are not in {root}: "
            f"{first_few(missing)}; give --skip-bad to leave them out"
        )


def _read_table(table: Path) -> Listing:
    with (
        reading(table, "a table"),
        table.open(encoding="utf-8-sig", newline="") as file,
    ):
        rows = csv.reader(file)
        header = next(rows, [])
        if len(header) < 2:
            raise FileFormatError(
                f"{table} needs a header with a column for the image and one for each "
                f"label, got {header}"
            )
        if len(header) == 2 and header[1].strip().lower() in ("label", "class"):
            return _of_classes([row for row in rows if row], table)
        names, labels = _rows(rows, os.fspath(table), first_line=2)
    if labels.shape[1] != len(header) - 1:
        raise FileFormatError(
            f"{table} names {len(header) - 1} labels, and its rows have "
            f"{labels.shape[1]}"
        )
    return Listing(names, torch.from_numpy(labels), tuple(header[1:]))


def _of_classes(lines: Sequence[list[str]], table: Path) -> Listing:
    """Rows of an image and the name of its class."""
    wrong = next((row for row in lines if len(row) != 2 or not row[1].strip()), None)
    if wrong is not None:
        raise FileFormatError(f"{table} names no class in the row {','.join(wrong)!r}")
    found = [row[1].strip() for row in lines]
    if not found:
        raise FileFormatError(f"{table} lists no images")
    classes = sorted(set(found))
    place = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([place[name] for name in found])
    return Listing([row[0] for row in lines], labels, tuple(classes))


def _rows(lines: Iterable[list[str]], source: str, first_line: int = 1) -> Rows:
    names: list[str] = []
    labels: list[NDArray[np.bool_]] = []
    for number, words in enumerate(lines, first_line):
        if not words:
            continue
        if not set(words[1:]) <= {"0", "1"}:
            wrong = next(word for word in words[1:] if word not in ("0", "1"))
            raise FileFormatError(
                f"{source}, line {number}: labels must be 0 or 1, got {wrong!r}"
            )
        names.append(words[0])
        labels.append(np.array(words[1:]) == "1")
        if labels[-1].shape != labels[0].shape or not len(labels[0]):
            raise FileFormatError(
                f"{source}, line {number}: {len(labels[-1])} labels, where the first "
                f"line has {len(labels[0])}"
            )
    if not names:
        raise FileFormatError(f"{source} lists no images")
    return names, np.stack(labels)

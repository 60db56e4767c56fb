"""NUS-WIDE: its images, and the published lists of their labels."""

import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import Listing, find_root, image_dataset
from gradsnap.data.images import ImageOptions
from gradsnap.data.label_lists import check_present, image_root, read_label_list
from gradsnap.errors import FileFormatError, InputError

CONCEPTS = "Groundtruth/AllLabels/Labels_*.txt"

IMAGE_LIST = "ImageList/Imagelist.txt"

IMAGE_FOLDERS = ("", "Flickr", "images", "Images")


def open_nuswide(
    root: str | os.PathLike[str] | None,
    options: ImageOptions | None = None,
    num_labels: int = 21,
) -> Dataset:
    """NUS-WIDE with its most frequent labels, multi-hot bool (n, num_labels).

    Two layouts are read. The publisher's has ``ImageList/Imagelist.txt`` and a file of
    0 and 1 for each concept in ``Groundtruth/AllLabels``; images without any of the
    most frequent labels are left out. The other has lists ``*_21_train.txt``,
    ``*_21_test.txt`` and perhaps ``*_21_database.txt`` of lines ``name 0 1 0 …``; the
    images of the test list are held out.

    Many of the images are no longer to be had: ``options.skip_bad`` leaves out, and
    counts, those that are missing.

    Args:
        root: the folder of the lists; images in it, in ``images`` or in ``Flickr``.
        options: how images are read.
        num_labels: 21, as in the paper, or 81 for all.
    """
    options = options or ImageOptions()
    if root is not None and (Path(root) / IMAGE_LIST).is_file():
        base, listing = Path(root), _read_concepts(Path(root), num_labels)
    else:
        mark = f"*_{num_labels}_*train.txt"
        base = find_root("nuswide", root, ("nuswide", "NUS-WIDE"), mark)
        listing = _read_lists(_train_list(base, mark))
    images = image_root(base, listing.names, IMAGE_FOLDERS)
    check_present(images, listing.names, options)
    return image_dataset("nuswide", images, listing, options)


def _train_list(base: Path, mark: str) -> Path:
    """The list whose images are there; lists differ in how they name the images."""
    lists = sorted(base.glob(mark))
    for path in lists:
        with path.open(encoding="utf-8") as file:
            name = file.readline().partition(" ")[0]
        if any((base / folder / name).is_file() for folder in IMAGE_FOLDERS):
            return path
    return lists[0]


def _read_lists(train: Path) -> Listing:
    """The images of the training list and of the lists beside it, each once."""
    names: dict[str, bool] = {}
    rows: list[NDArray[np.bool_]] = []
    for part in ("test", "train", "database"):
        path = train.with_name(train.name.replace("train.txt", f"{part}.txt"))
        if not path.is_file():
            continue
        listed, labels = read_label_list(path)
        fresh = [row for row, name in enumerate(listed) if name not in names]
        rows.append(labels[fresh])
        names |= {listed[row]: part == "test" for row in fresh}
    if len({labels.shape[1] for labels in rows}) > 1:
        raise FileFormatError(f"the lists beside {train} differ in their labels")
    multi_hot = torch.from_numpy(np.concatenate(rows))
    classes = tuple(f"label {number}" for number in range(multi_hot.shape[1]))
    return Listing(list(names), multi_hot, classes, torch.tensor(list(names.values())))


def _read_concepts(base: Path, num_labels: int) -> Listing:
    lines = (base / IMAGE_LIST).read_text(encoding="utf-8").split()
    names = np.array([line.replace("\\", "/") for line in lines])
    concepts = sorted(base.glob(CONCEPTS))
    if not 1 <= num_labels <= len(concepts):
        raise InputError(
            f"num_labels must be 1 to {len(concepts)}, the files {CONCEPTS} in {base}; "
            f"got {num_labels}"
        )
    columns = np.stack([_read_concept(path, len(names)) for path in concepts], axis=1)
    order = np.argsort(-columns.sum(axis=0), kind="stable")[:num_labels]
    kept = columns[:, order].any(axis=1)  # (n,)
    classes = tuple(concepts[place].stem.removeprefix("Labels_") for place in order)
    labels = torch.from_numpy(columns[kept][:, order])
    return Listing(names[kept].tolist(), labels, classes)


def _read_concept(path: Path, count: int) -> NDArray[np.bool_]:
    words = np.array(path.read_text(encoding="utf-8").split())
    if len(words) != count or not np.isin(words, ["0", "1"]).all():
        raise FileFormatError(
            f"{path} must hold 0 or 1 for each of {count} images; it holds "
            f"{len(words)} words"
        )
    return np.asarray(words == "1")

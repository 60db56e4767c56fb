"""An index brought in step with its folder: new, changed, gone and renamed files."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from gradsnap.collection.adding import subset
from gradsnap.collection.facts import checksum_of, facts_of_all, stamp_of
from gradsnap.collection.files import ids_of
from gradsnap.collection.metadata import facts_columns, labels_of
from gradsnap.data import Dataset, ImageFiles
from gradsnap.data.folders import decodable
from gradsnap.errors import InputError
from gradsnap.index import Index
from gradsnap.index.roots import BETWEEN, Place
from gradsnap.progress import track

Known = Mapping[str, Any]
"""What the index knows of a file: its columns by name."""


@dataclass
class Plan:
    """What has to be done so that the index says what the folder holds."""

    dataset: Dataset
    """All files that are there."""
    root: str
    """Where they lie."""
    ids: list[str]
    """Of the files, in the order of the data set."""
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """Ids of files with other contents."""
    touched: list[str] = field(default_factory=list)
    """Ids of files with the same contents, written at another time."""
    removed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    """Old ids of files with the same contents under another name, and the new ones."""
    same: int = 0
    """How many files are as they were."""

    def path(self, row: int) -> str:
        """Where a file of the data set lies."""
        return os.path.join(self.root, self.dataset.names[row])

    def counts(self) -> dict[str, int]:
        """How many files of each fate."""
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "removed": len(self.removed),
            "moved": len(self.moved),
            "touched": len(self.touched),
            "same": self.same,
        }


def plan(index: Index, dataset: Dataset, checksums: bool = False) -> Plan:
    """What a folder's files and an index tell apart; nothing is changed.

    A file is the same if size and time are; if only the time differs, its checksum
    decides. A file that is new and one that is gone are one that moved, if size and
    checksum are equal.

    Args:
        index: knows the folder as a root, or as a folder in one.
        dataset: the files that are there.
        checksums: compare the contents of every file, whatever size and time say.

    Raises:
        InputError: the items are not files.
    """
    if not isinstance(dataset.items, ImageFiles):
        raise InputError(f"{dataset.name} holds no image files to keep in step with")
    place = index.roots.place_of(dataset.items.root)
    if place is None:
        roots = ", ".join(root.folder for root in index.roots.by_name.values())
        raise InputError(
            f"{dataset.items.root} is no folder of this index, which knows "
            f"{roots or 'none'}: gradsnap index {dataset.name} --add --out INDEX"
        )
    found = Plan(dataset, os.fspath(dataset.items.root), ids_of(index, dataset))
    paths = {one: found.path(row) for row, one in enumerate(found.ids)}
    known_ids = _ids_in(index.select(), place)
    known = dict(zip(known_ids, index.metadata(known_ids), strict=True))
    for one in track(found.ids, "comparing files"):
        if one in known:
            _compare(found, one, paths[one], known[one], checksums)
    _find_moves(found, paths, known)
    return found


def apply(index: Index, found: Plan) -> Dataset | None:
    """Renames, removes and updates; the files that are still to be added, or None."""
    rows = {one: row for row, one in enumerate(found.ids)}
    index.rename(found.moved)
    stale = [*found.removed, *found.changed]
    if stale:
        index.remove(stale)
    _restate(index, found, [*found.moved.values(), *found.touched], rows)
    wanted = sorted(rows[one] for one in (*found.added, *found.changed))
    return subset(found.dataset, torch.tensor(wanted)) if wanted else None


def compact_if_scattered(index: Index) -> None:
    """Puts all items into one segment where many small ones or gaps piled up."""
    segments = index.items.segments
    gaps = sum(len(segment.removed) for segment in segments)
    if len(segments) > 8 or gaps > len(index) // 4:
        index.compact()


def _compare(found: Plan, one: str, path: str, known: Known, checksums: bool) -> None:
    """Adds a file the index knows to what happened to it."""
    stamp = stamp_of(path)
    if not checksums and (known.get("size"), known.get("time")) == tuple(stamp):
        found.same += 1
    elif known.get("size") is None:
        found.touched.append(one)  # an index of before: nothing to compare with
    elif known["size"] == stamp.size and checksum_of(path) == known.get("checksum"):
        if known.get("time") == stamp.time:
            found.same += 1
        else:
            found.touched.append(one)
    else:
        found.changed.append(one)


def _find_moves(found: Plan, paths: Mapping[str, str], known: Known) -> None:
    """Divides new and gone files into added, removed and moved."""
    gone: dict[tuple[Any, Any], list[str]] = defaultdict(list)
    for one in (one for one in known if one not in paths):
        gone[known[one].get("size"), known[one].get("checksum")].append(one)
    sizes = {size for size, _ in gone}
    for one in (one for one in found.ids if one not in known):
        size = stamp_of(paths[one]).size
        same = gone.get((size, checksum_of(paths[one]))) if size in sizes else None
        if same:
            found.moved[same.pop(0)] = one
        else:
            found.added.append(one)
    found.removed = [one for some in gone.values() for one in some]


def _restate(
    index: Index, found: Plan, ids: list[str], rows: Mapping[str, int]
) -> None:
    """Writes down anew what files say of themselves, and their labels."""
    import pyarrow

    if not ids:
        return
    places = torch.tensor([rows[one] for one in ids])
    paths = [found.path(row) for row in places.tolist()]
    columns = facts_columns(facts_of_all(paths))
    labels = labels_of(found.dataset, places)
    if labels is not None:
        columns["label"] = pyarrow.array(labels)
    index.update(ids, pyarrow.table(columns))


def without_broken(dataset: Dataset) -> tuple[Dataset | None, list[str]]:
    """The images that can be decoded, and the names of the others."""
    if not isinstance(dataset.items, ImageFiles):
        return dataset, []
    fine = torch.tensor(decodable(dataset.items, dataset.name), dtype=torch.bool)
    broken = [dataset.names[row] for row in (~fine).nonzero()[:, 0].tolist()]
    some = fine.nonzero()[:, 0]
    return (subset(dataset, some) if len(some) else None), broken


def _ids_in(ids: Iterable[Any], place: Place) -> list[str]:
    """The ids of files in a folder of a root."""
    start = f"{place.root}{BETWEEN}" if place.root else ""
    start += f"{place.below}/" if place.below else ""
    return [
        one
        for one in ids
        if one.startswith(start) and (place.root or BETWEEN not in one)
    ]

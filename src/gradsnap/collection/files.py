"""The files of a data set as items of an index: their root, ids and links."""

import os
from collections.abc import Iterable

from gradsnap.data import Dataset, ImageFiles
from gradsnap.index import Index


def add_root(index: Index, dataset: Dataset) -> None:
    """Lets the index know the folder of a data set's files, where it has any."""
    if isinstance(dataset.items, ImageFiles):
        root = os.fspath(dataset.items.root)
        links = linked_folders(root, dataset.names)
        index.roots = index.roots.with_folder(root, links)


def ids_of(index: Index, dataset: Dataset) -> list[str]:
    """The id of every item, its root known: the path below it, or the item's name."""
    if not isinstance(dataset.items, ImageFiles):
        return list(dataset.names)
    place = index.roots.place_of(dataset.items.root)
    if place is None:
        return list(dataset.names)
    before = f"{place.below}/" if place.below else ""
    return [index.roots.id_of(place.root, before + name) for name in dataset.names]


def linked_folders(root: str, names: Iterable[str]) -> list[str]:
    """Real folders outside of a root that links in it lead to, the topmost of each."""
    top = os.path.realpath(root)
    folders: set[str] = set()
    found: set[str] = set()
    for name in names:
        path = os.path.join(root, name)
        folders.add(os.path.dirname(path))
        if os.path.islink(path):
            found.add(os.path.dirname(os.path.realpath(path)))
    found |= {os.path.realpath(folder) for folder in folders}
    kept: list[str] = []
    for folder in sorted(found):
        if not any(_is_below(folder, one) for one in (top, *kept)):
            kept.append(folder)
    return kept


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)

"""Which sources an index has taken in, and how far: a build that was killed goes on.

Two notes in the manifest, saved with the items they speak of: ``sources`` names files
of vectors that are in the index, ``unfinished`` the source whose items are still being
added and how many rows of it are there.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

import torch

from gradsnap.data import Dataset, ImageFiles
from gradsnap.index import Index

TAKEN, UNFINISHED = "sources", "unfinished"
BLOCK = 65_536
"""Rows that are hashed at once where no file holds them."""


class Unfinished(NamedTuple):
    """A source that an index holds a part of."""

    source: str
    rows: int
    """Of it that are in the index."""
    total: int

    def __str__(self) -> str:
        return f"{self.rows:,} of {self.total:,} items"


def source_of(dataset: Dataset) -> str:
    """What tells a source from others: a folder's place, or all bytes of vectors."""
    if isinstance(dataset.items, ImageFiles):
        return f"files {os.path.realpath(dataset.items.root)}"
    if dataset.holds_images:
        return f"images {dataset.name}"
    path = getattr(dataset.items, "path", None)
    if path is not None:
        with Path(path).open("rb") as file:
            return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
    digest = hashlib.sha256()
    for some in torch.arange(len(dataset)).split(BLOCK):
        digest.update(dataset.items.batch(some).contiguous().numpy().data)
    return f"sha256 {digest.hexdigest()}"


def unfinished(index: Index) -> Unfinished | None:
    """The source whose items are not all there, if a writer was stopped."""
    try:
        return Unfinished(*json.loads(index.notes[UNFINISHED]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def mark_unfinished(index: Index, source: str, rows: int, total: int) -> None:
    """Notes, for the next save, that a part of a source is there."""
    index.notes[UNFINISHED] = json.dumps([source, rows, total])


def mark_finished(index: Index, source: str) -> None:
    """Notes, for the next save, that all of a source is there."""
    index.notes.pop(UNFINISHED, None)
    if source.startswith("sha256 ") and source not in taken(index):
        index.notes[TAKEN] = json.dumps([*taken(index), source])


def taken(index: Index) -> list[str]:
    """The files of vectors that are in the index, in the order they were added."""
    try:
        return [str(one) for one in json.loads(index.notes.get(TAKEN, "[]"))]
    except (TypeError, ValueError, RecursionError):
        return []


def rows_taken(index: Index, dataset: Dataset, source: str) -> int:
    """How many rows of a data set of vectors are in the index already."""
    begun = unfinished(index)
    if begun is not None and begun.source == source:
        return min(max(begun.rows, 0), len(dataset))
    return len(dataset) if source in taken(index) else 0

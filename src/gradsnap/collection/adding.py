"""Items of a data set put into an index: ids, metadata, what is known already."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsnap.collection.files import add_root, ids_of
from gradsnap.collection.metadata import metadata_of
from gradsnap.collection.side_table import SideTable
from gradsnap.collection.sources import (
    mark_finished,
    mark_unfinished,
    rows_taken,
    source_of,
)
from gradsnap.data import Dataset, ImageFiles
from gradsnap.index import Index, load_index
from gradsnap.inference.embedding import EmbeddingStream
from gradsnap.strings import PackedStrings

SAVE_EVERY = 1_048_576
"""Items added between two saves: what is saved is mapped, not held."""


class NewItems(NamedTuple):
    """Which items of a data set an index is still to get."""

    dataset: Dataset | None
    """Those items; None where there are none."""
    known: list[str]
    """Ids of the others, which the index has."""


def new_items(index: Index, dataset: Dataset) -> NewItems:
    """The items whose ids the index does not have; it knows their root afterwards."""
    add_root(index, dataset)
    if not dataset.holds_images or len(index) == 0:
        return NewItems(dataset, [])
    ids = ids_of(index, dataset)
    known = index.items.known(ids)
    rest = np.setdiff1d(np.arange(len(ids)), known)
    some = subset(dataset, torch.from_numpy(rest)) if len(rest) else None
    return NewItems(some, [ids[place] for place in known.tolist()])


def subset(dataset: Dataset, indices: Tensor) -> Dataset:
    """The items at indices (m,), ascending, of a data set of images."""
    names = PackedStrings.of(dataset.names[place] for place in indices.tolist())
    items = dataset.items
    if isinstance(items, ImageFiles):
        chosen = dataclasses.replace(items, names=names)
    else:
        chosen = ChosenItems(items, indices)  # type: ignore[assignment]
    return dataclasses.replace(
        dataset,
        items=chosen,
        names=names,
        labels=None if dataset.labels is None else dataset.labels[indices],
        held_out=None if dataset.held_out is None else dataset.held_out[indices],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class ChosenItems:
    """Some of the images of others."""

    items: object
    indices: Tensor
    """int64 (m,)."""

    def __len__(self) -> int:
        return len(self.indices)

    def batch(self, indices: Tensor) -> Tensor:
        """The images at indices (b,) of the chosen ones."""
        found: Tensor = self.items.batch(self.indices[indices])  # type: ignore[attr-defined]
        return found

    def reading(self, side: int | None, channels: int | None) -> "ChosenItems":
        """The same images at another size."""
        own = self.items.reading(side, channels)  # type: ignore[attr-defined]
        return dataclasses.replace(self, items=own)


def add_items(
    index: Index, stream: EmbeddingStream, beside: SideTable | None = None
) -> None:
    """Adds the images of a stream, all of them or none; nothing is saved."""
    blocks = list(stream.blocks("indexing"))
    ids = ids_of(index, stream.dataset)
    for block, rows in blocks:
        own = [ids[place] for place in block.tolist()]
        index.add(rows, own, metadata_of(stream.dataset, block, beside))


def fill(
    index: Index,
    stream: EmbeddingStream,
    out: Path,
    beside: SideTable | None = None,
    *,
    source: str | None = None,
    last: bool = True,
) -> Index:
    """Adds all items of a stream and saves, now and then too; the index that is there.

    Images get their paths for ids, and their metadata; vectors the next numbers. Each
    save notes how many rows are there, so that a run that was killed can go on: rows
    of vectors that the index has by its notes are left out.

    Args:
        index: to add to.
        stream: of the items.
        out: the index folder.
        beside: more metadata.
        source: what the items are called in the notes; by ``source_of`` if None.
        last: whether nothing else has to be written for the index to be whole.
    """
    dataset = stream.dataset
    source = source_of(dataset) if source is None else source
    ids: Sequence[str] | None = ids_of(index, dataset) if dataset.holds_images else None
    done = 0 if ids is not None else rows_taken(index, dataset, source)
    unsaved = 0
    for block, rows in stream.blocks("indexing", start=done):
        own = None if ids is None else [ids[place] for place in block.tolist()]
        index.add(rows, own, metadata_of(dataset, block, beside))
        unsaved += len(rows)
        done += len(rows)
        if unsaved >= SAVE_EVERY:
            mark_unfinished(index, source, done, len(dataset))
            index.save(out)
            index, unsaved = load_index(out), 0
    if last:
        mark_finished(index, source)
    else:
        mark_unfinished(index, source, done, len(dataset))
    index.save(out)
    return index

"""The part of a sharded source that one process lists; nobody holds all names."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.data.dataset import Dataset
from gradsnap.data.folders import decodable, first_few
from gradsnap.data.images import ImageOptions, decode_bytes
from gradsnap.data.shards.items import (
    ShardImages,
    ShardNames,
    ShardRows,
    ShardVectors,
    map_shards,
)
from gradsnap.data.shards.kept_listings import KeptListings
from gradsnap.data.shards.lanes import LANES, Lanes, own_shards, run_of
from gradsnap.data.shards.reader import Listed, Shard, ShardReader
from gradsnap.errors import InputError
from gradsnap.places import reaching
from gradsnap.progress import track
from gradsnap.strings import PackedStrings

logger = logging.getLogger(__name__)


class Summary(NamedTuple):
    """What all processes must know of a part; small."""

    items: int
    classes: tuple[str, ...]
    """That occur in it; empty where nothing has a label."""
    left_out: int
    shape: tuple[int, ...]
    """Of its first item as it is stored, (c, h, w) or (dim,)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedDataset(Dataset):
    """The items of one process, out of a source that nobody holds as a whole.

    An item's number in the source is ``first`` plus its index here, whichever process
    has it: shards are sorted, and each process has a run of them.
    """

    rows: ShardRows
    """Where the items lie."""
    lanes: Lanes
    first: int
    """The number of this process's first item in the source."""
    total: int
    """Items of all processes."""
    total_left_out: int
    """What all processes left out."""

    def holds(self, numbers: Tensor) -> Tensor:
        """Which items of the source (m,) are this process's, bool (m,)."""
        return (numbers >= self.first) & (numbers < self.first + len(self))


@dataclass(frozen=True, eq=False)
class Part:
    """What one process found in its shards."""

    rows: ShardRows
    lanes: Lanes
    labels: NDArray[np.int64]
    """Places in ``words``, (n,); −1 where there are no labels."""
    words: tuple[str, ...]
    """The labels that occur, in the order in which they were found."""
    left_out: tuple[str, ...]
    options: ImageOptions

    def summary(self) -> Summary:
        """What the others must know; the first item is read for it."""
        shape = _shape(self.rows, self.options)
        return Summary(len(self.rows), self.words, len(self.left_out), shape)

    def dataset(self, everyone: Sequence[Summary], rank: int = 0) -> ShardedDataset:
        """The data set of this part, with classes that all processes agree on.

        Args:
            everyone: the summaries of all parts, in the order of processes.
            rank: of this process.

        Raises:
            InputError: some parts have labels and others have none.
        """
        sizes = [one.items for one in everyone]
        classes = agreed_classes(everyone, self.rows.reader.address)
        number = {name: place for place, name in enumerate(classes)}
        known = np.array([number[word] for word in self.words], dtype=np.int64)
        labels = torch.from_numpy(known[self.labels]) if len(known) else None
        items = _items(self.rows, self.options, everyone[0].shape)
        return ShardedDataset(
            name=self.rows.reader.address,
            items=items,
            names=ShardNames(self.rows),
            rows=self.rows,
            labels=labels,
            classes=classes,
            skipped=self.left_out,
            first=sum(sizes[:rank]),
            total=sum(sizes),
            total_left_out=sum(one.left_out for one in everyone),
            lanes=self.lanes,
        )


def list_part(
    reader: ShardReader,
    options: ImageOptions,
    rank: int = 0,
    world: int = 1,
    lanes: int = LANES,
    kept: Path | None = None,
) -> Part:
    """Lists the shards of one process.

    Args:
        reader: of the source.
        options: how images are read; with ``skip_bad`` each is decoded once, and what
            has no label or cannot be decoded is left out.
        rank: of the process.
        world: how many processes share the source.
        lanes: see ``gradsnap.data.shards.lanes``.
        kept: a folder for lists that take long to make; None keeps none.

    Raises:
        InputError: too few shards, an empty one, or an item without a label.
    """
    every = reader.shards()
    if not every:
        raise InputError(f"{reader.address} has no shards with items")
    runs = own_shards(len(every), lanes, rank, world)
    own = tuple(every[runs[0].start : runs[-1].stop])
    list_shard = reader.listed if kept is None else KeptListings(reader, kept)
    found = _listed(reader, own, list_shard)
    rows = ShardRows(reader, own, found.starts(), None, *found.joined())
    edges = [run.start - runs[0].start for run in runs] + [len(own)]
    count = min(lanes, len(every))
    place = Lanes(run_of(count, rank, world), count, rows.starts[edges])
    labels, words = np.concatenate(found.labels), tuple(found.words)
    return _complete(_labelled(Part(rows, place, labels, words, (), options)))


def agreed_classes(everyone: Sequence[Summary], source: str) -> tuple[str, ...]:
    """The classes of all parts: numbers in their order, names in theirs.

    Raises:
        InputError: some parts have labels and others have none.

    Example:
        >>> few = [Summary(2, ("10", "9"), 0, ()), Summary(1, ("2",), 0, ())]
        >>> agreed_classes(few, "photos")
        ('2', '9', '10')
    """
    found = {word for one in everyone for word in one.classes}
    if found and not all(one.classes for one in everyone):
        raise InputError(f"{source}: some of its shards have labels and others none")
    if all(word.isdecimal() for word in found):
        return tuple(sorted(found, key=lambda word: (int(word), word)))
    return tuple(sorted(found))


class _Found(NamedTuple):
    """What was listed so far, packed shard by shard."""

    keys: list[PackedStrings]
    places: list[NDArray[np.int64]]
    labels: list[NDArray[np.int64]]
    words: dict[str, int]
    """The place of each label that occurs."""

    def add(self, one: Listed) -> None:
        """Adds a shard."""
        self.keys.append(PackedStrings.of(one.keys))
        self.places.append(one.places)
        words = self.words
        numbers = [
            -1 if label is None else words.setdefault(label, len(words))
            for label in one.labels
        ]
        self.labels.append(np.array(numbers, dtype=np.int64))

    def starts(self) -> NDArray[np.int64]:
        """The first item of each shard, and their number, (s + 1,)."""
        return np.cumsum([0, *map(len, self.keys)], dtype=np.int64)

    def joined(self) -> tuple[PackedStrings, NDArray[np.int64]]:
        """Keys of all n items, and places (n, k)."""
        return PackedStrings.joined(self.keys), np.concatenate(self.places)


def _listed(
    reader: ShardReader, shards: Sequence[Shard], list_shard: Callable[[Shard], Listed]
) -> _Found:
    """What all the shards hold; several are listed at once over a network."""
    found = _Found([], [], [], {})
    with reaching(reader.address):
        lists = map_shards(reader, list_shard, shards)
        for shard, one in zip(
            shards, track(lists, f"listing {reader.address}"), strict=True
        ):
            if not one.keys:
                raise InputError(f"{shard.name} of {reader.address} holds no items")
            found.add(one)
    return found


def _labelled(part: Part) -> Part:
    """Refuses items without a label among others that have one, or leaves them out."""
    known = part.labels >= 0
    if not part.options.labelled:
        return replace(part, labels=np.full(len(known), -1), words=())
    if known.all() or not known.any():
        return part
    if part.options.skip_bad:
        return _only(part, known, "without a label")
    missing = np.flatnonzero(~known)
    raise InputError(
        f"{part.rows.reader.address}: {len(missing)} of {len(known)} items have no "
        f"label, such as {part.rows.name(int(missing[0]))}; --skip-bad leaves such out"
    )


def _complete(part: Part) -> Part:
    """Without the images that cannot be decoded, if such are to be left out."""
    if not (part.options.skip_bad and part.rows.reader.holds_images):
        return part
    images = ShardImages(part.rows, part.options, (3, 1, 1))
    fine = decodable(images, part.rows.reader.address)
    return _only(part, np.array(fine, dtype=bool), "that cannot be decoded")


def _only(part: Part, kept: NDArray[np.bool_], why: str) -> Part:
    """The part with those items that are kept (n,)."""
    if kept.all():
        return part
    gone = [part.rows.name(int(place)) for place in np.flatnonzero(~kept)]
    address = part.rows.reader.address
    logger.warning(
        "%s: left out %d items %s: %s", address, len(gone), why, first_few(gone)
    )
    before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)  # (n + 1,)
    if not before[-1]:
        raise InputError(f"{address}: no item of {part.rows.shards[0].name} on is left")
    rows = part.rows
    inside = np.arange(len(kept)) - np.repeat(rows.starts[:-1], np.diff(rows.starts))
    inside = inside if rows.rows is None else rows.rows
    chosen = ShardRows(
        rows.reader,
        rows.shards,
        before[rows.starts],
        inside[kept],
        rows.keys.take(np.flatnonzero(kept)),
        rows.places[kept],
    )
    lanes = part.lanes._replace(starts=before[part.lanes.starts])
    names = (*part.left_out, *gone)
    return replace(
        part, rows=chosen, lanes=lanes, labels=part.labels[kept], left_out=names
    )


def _shape(rows: ShardRows, options: ImageOptions) -> tuple[int, ...]:
    """Of the first item as it is stored."""
    [first] = rows.read([0])
    if not rows.reader.holds_images:
        return tuple(first.shape)
    plain = ImageOptions(channels=options.channels)
    return tuple(decode_bytes(first, rows.name(0), plain).shape)


def _items(
    rows: ShardRows, options: ImageOptions, shape: tuple[int, ...]
) -> ShardImages | ShardVectors:
    if rows.reader.holds_images:
        return ShardImages(rows, options, shape)
    return ShardVectors(rows, shape)

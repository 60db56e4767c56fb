"""Items of some shards by index, read from where they lie when they are asked for."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.compiled import on_threads
from gradsnap.data.images import ImageOptions, decode_bytes, stacked
from gradsnap.data.mapped import as_vectors
from gradsnap.data.shards.reader import Shard, ShardReader, Wanted
from gradsnap.errors import FileFormatError, InputError
from gradsnap.places import reaching
from gradsnap.strings import PackedStrings

READERS = 16
"""Items that are asked for at once where they come over a network."""

Given = TypeVar("Given")
Result = TypeVar("Result")

Job = tuple[int, list[Wanted], list[int]]
"""The number of a shard, what is wanted of it, and their places in the batch."""


@dataclass(frozen=True, eq=False)
class ShardRows:
    """Where n items lie: the shards of one part, one after the other."""

    reader: ShardReader
    shards: tuple[Shard, ...]
    starts: NDArray[np.int64]
    """The first item of each shard, and n, (s + 1,)."""
    rows: NDArray[np.int64] | None
    """The number of each item in its shard, (n,), where some were left out."""
    keys: PackedStrings
    places: NDArray[np.int64]
    """(n, k)."""

    def __len__(self) -> int:
        return len(self.keys)

    def name(self, index: int) -> str:
        """What an item is called."""
        shard, wanted = self._find(index)
        return self.reader.name(self.shards[shard], wanted.key, wanted.row)

    def read(self, indices: Sequence[int]) -> list[Any]:
        """Encoded images, or vectors (dim,), at indices."""
        jobs = self._jobs(indices)
        found = list(map_shards(self.reader, self._read, jobs))
        every: list[Any] = [None] * len(indices)
        for (_, _, places), items in zip(jobs, found, strict=True):
            for place, item in zip(places, items, strict=True):
                every[place] = item
        return every

    def _read(self, job: Job) -> Any:
        shard, wanted, _ = job
        with reaching(self.reader.address):
            return self.reader.read(self.shards[shard], wanted)

    def _jobs(self, indices: Sequence[int]) -> list[Job]:
        """One for each shard; one for each item where that is faster."""
        alone = not (self.reader.reads_whole or self.reader.is_local)
        jobs: dict[tuple[int, int], Job] = {}
        for place, index in enumerate(indices):
            shard, wanted = self._find(index)
            job = jobs.setdefault((shard, place if alone else 0), (shard, [], []))
            job[1].append(wanted)
            job[2].append(place)
        return list(jobs.values())

    def _find(self, index: int) -> tuple[int, Wanted]:
        shard = int(np.searchsorted(self.starts, index, side="right")) - 1
        row = index - int(self.starts[shard])
        row = row if self.rows is None else int(self.rows[index])
        return shard, Wanted(self.keys[index], row, self.places[index])


def map_shards(
    reader: ShardReader, work: Callable[[Given], Result], jobs: Sequence[Given]
) -> Iterator[Result]:
    """What ``work`` gives for every job, in order; many at once over a network."""
    if reader.is_local or reader.reads_whole:
        yield from map(work, jobs)
        return
    with ThreadPoolExecutor(READERS) as pool:
        yield from pool.map(work, jobs)


@dataclass(frozen=True)
class ShardNames(Sequence[str]):
    """Names of items, made when asked for."""

    rows: ShardRows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        rows = self.rows
        name, edges = rows.reader.name, itertools.pairwise(rows.starts.tolist())
        for shard, (first, last) in zip(rows.shards, edges, strict=True):
            for index in range(first, last):
                row = index - first if rows.rows is None else int(rows.rows[index])
                yield name(shard, rows.keys[index], row)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self.rows.name(one) for one in range(len(self))[index]]
        return self.rows.name(range(len(self))[index])


@dataclass(frozen=True, eq=False)
class ShardImages:
    """Images of shards, decoded when they are asked for."""

    rows: ShardRows
    options: ImageOptions
    first: tuple[int, ...]
    """Shape of the first image of the whole source, as it is stored."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Of every image, if they are resized; else of the source's first."""
        channels = self.options.channels or self.first[0]
        side = self.options.side
        return (channels, *(self.first[1:] if side is None else (side, side)))

    def batch(self, indices: Tensor) -> Tensor:
        """The images at indices (b,), uint8 (b, channels, height, width)."""
        places = indices.tolist()
        if not places:
            return torch.empty(0, *self.item_shape, dtype=torch.uint8)
        pairs = list(zip(places, self.rows.read(places), strict=True))
        images = on_threads(self._decoded, pairs)
        return stacked(images, [self.rows.name(place) for place in places])

    def reading(self, side: int | None, channels: int | None) -> "ShardImages":
        """The same images at another size; nothing is decoded yet."""
        return replace(self, options=self.options.reading(side, channels))

    def _decoded(self, item: tuple[int, bytes]) -> Tensor:
        place, data = item
        try:
            return decode_bytes(data, self.rows.name(place), self.options)
        except FileFormatError as error:
            raise FileFormatError(f"{error}; --skip-bad leaves such out") from error


@dataclass(frozen=True, eq=False)
class ShardVectors:
    """Vectors of shards."""

    rows: ShardRows
    item_shape: tuple[int, ...]
    """(dim,)."""

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Tensor) -> Tensor:
        """The vectors at indices (b,), float32 (b, dim)."""
        places = indices.tolist()
        if not places:
            return torch.empty(0, *self.item_shape)
        found = self.rows.read(places)
        for place, one in zip(places, found, strict=True):
            if one.shape != self.item_shape:
                raise InputError(
                    f"{self.rows.name(place)} has {len(one)} numbers, the first vector "
                    f"of {self.rows.reader.address} has {self.item_shape[0]}"
                )
        return as_vectors(np.stack(found), indices, self.rows.reader.address)

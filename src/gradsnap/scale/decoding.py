"""Chunks of a source as batches; bad items are put aside with a reason."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradsnap.compiled import on_threads
from gradsnap.data.images import ImageOptions, decode_bytes
from gradsnap.errors import FileFormatError, InputError
from gradsnap.scale.shard import Chunk


class BadItem(NamedTuple):
    """An item that cannot be encoded."""

    id: str
    reason: str


class Batch(NamedTuple):
    """Items that can be encoded, in order."""

    ids: Any
    """n strings, or n whole numbers."""
    items: Tensor
    """uint8 (n, c, h, w) or float32 (n, dim); n may be 0."""
    metadata: Any
    """A pyarrow table of n rows, or None."""
    bad: Sequence[BadItem]
    """Those that were put aside."""


@dataclass(frozen=True)
class Decoder:
    """Makes batches of chunks.

    Args:
        options: how images are read.
        dim: length that vectors must have.
        rows: of a batch.
    """

    options: ImageOptions
    dim: int
    rows: int

    def batches(self, chunks: Iterable[Chunk]) -> Iterator[Batch]:
        """Batches of so many rows each, but for the last of a chunk."""
        for chunk in chunks:
            for start in range(0, len(chunk.ids), self.rows):
                yield self.batch(_part(chunk, start, start + self.rows))

    def batch(self, chunk: Chunk) -> Batch:
        """The good items of a chunk, and the bad ones."""
        if isinstance(chunk.items, list):
            return self._images(chunk)
        items = torch.from_numpy(np.ascontiguousarray(chunk.items))
        return self._vectors(chunk, items) if items.ndim == 2 else _whole(chunk, items)

    def _images(self, chunk: Chunk) -> Batch:
        pairs = list(zip(chunk.ids, chunk.items, strict=True))
        decoded = on_threads(lambda pair: self._decoded(*pair), pairs)
        good = [n for n, one in enumerate(decoded) if isinstance(one, Tensor)]
        images = [one for one in decoded if isinstance(one, Tensor)]
        bad = [one for one in decoded if isinstance(one, BadItem)]
        if not images:
            return Batch([], torch.empty(0), None, bad)
        _check_shapes(images)
        stacked = torch.stack([image.permute(1, 2, 0) for image in images])
        return _chosen(chunk, good, stacked.permute(0, 3, 1, 2), bad)

    def _decoded(self, name: Any, data: bytes) -> Tensor | BadItem:
        try:
            return decode_bytes(data, str(name), self.options)
        except FileFormatError as error:
            return BadItem(str(name), str(error))

    def _vectors(self, chunk: Chunk, rows: Tensor) -> Batch:
        if rows.shape[1] != self.dim:
            raise InputError(
                f"vectors of length {rows.shape[1]} do not fit a model of dim "
                f"{self.dim}, from {chunk.ids[0]} on"
            )
        fine = rows.square().sum(dim=1).isfinite()
        if fine.all():
            return _whole(chunk, rows)
        places = torch.arange(len(rows))
        bad = [
            BadItem(str(chunk.ids[n]), "holds NaN, infinity or numbers too large")
            for n in places[~fine].tolist()
        ]
        return _chosen(chunk, places[fine].tolist(), rows[fine], bad)


def _part(chunk: Chunk, start: int, stop: int) -> Chunk:
    table = chunk.metadata
    part = None if table is None else table.slice(start, stop - start)
    return Chunk(chunk.ids[start:stop], chunk.items[start:stop], part)


def _whole(chunk: Chunk, items: Tensor) -> Batch:
    return Batch(chunk.ids, items, chunk.metadata, ())


def _chosen(
    chunk: Chunk, good: list[int], items: Tensor, bad: Sequence[BadItem]
) -> Batch:
    table = chunk.metadata
    rows = None if table is None else table.take(good)
    return Batch([chunk.ids[n] for n in good], items, rows, bad)


def _check_shapes(images: Sequence[Tensor]) -> None:
    shapes = {tuple(image.shape) for image in images}
    if len(shapes) > 1:
        raise InputError(
            f"images have the shapes {', '.join(map(str, sorted(shapes)))}, and the "
            "model does not say which side it takes: train it with data.side=224"
        )

"""The best items found so far: heaps, one for each query."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsnap.compiled import kernels

Array = NDArray[Any]

NO_ID = -1
NO_KEY = np.iinfo(np.int64).max


class Best(NamedTuple):
    """The k best items so far of each query: heaps of (distance, key)."""

    distances: Array
    """float32 (q, k), infinite where nothing was found yet."""
    keys: Array
    """int64 (q, k): the id that breaks ties."""
    places: Array
    """int64 (q, k): where the item stands, -1 where nothing was found yet."""

    @classmethod
    def empty(cls, queries: int, k: int) -> "Best":
        """Nothing found yet."""
        shape = (queries, k)
        distances, keys = np.empty(shape, np.float32), np.empty(shape, np.int64)
        places = np.empty(shape, np.int64)
        distances.fill(np.inf)  # np.full takes three times as long
        keys.fill(NO_KEY)
        places.fill(-1)
        return cls(distances, keys, places)

    def part(self, start: int, stop: int) -> "Best":
        """The heaps of some queries, the same memory."""
        return Best(*(column[start:stop] for column in self))

    def ranked(self) -> "Best":
        """Ascending by distance, then key."""
        order = np.lexsort((self.keys, self.distances), axis=1)
        return Best(*(np.take_along_axis(column, order, axis=1) for column in self))

    def sorted(self) -> "Best":
        """``ranked`` for heaps, in place where a kernel can sort them."""
        compiled = kernels("gradsnap.index.heaps_compiled")
        if compiled is None:
            return self.ranked()
        compiled.sort_heaps(tuple(self))
        return self

    def merge(self, query: int, found: tuple[Array, Array, Array]) -> None:
        """Takes in items (distances, keys, places) of one query, unless too far."""
        joined = [
            np.concatenate([own[query], new])
            for own, new in zip(self, found, strict=True)
        ]
        k = self.distances.shape[1]
        order = np.lexsort((joined[1], joined[0]))[:k][::-1]  # a heap: the worst first
        for own, new in zip(self, joined, strict=True):
            own[query] = new[order]

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Ids (q, k), -1 where nothing was found, and distances (q, k)."""
        missing, ids = self.places < 0, self.keys
        if missing.any():
            ids = np.where(missing, NO_ID, ids)
        return torch.from_numpy(ids), torch.from_numpy(self.distances)


def joined(parts: list[Best], axis: int) -> Best:
    """Several results as one: more queries, or more items of each."""
    columns = zip(*parts, strict=True)
    return Best(*(np.concatenate(column, axis=axis) for column in columns))

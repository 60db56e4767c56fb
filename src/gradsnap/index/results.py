"""What a search finds, and the heaps it is found with."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

NO_ID = -1
NO_KEY = np.iinfo(np.int64).max


class SearchResult(NamedTuple):
    """The nearest items of each query, nearest first; equal distances by id.

    Where fewer than k items could be found the rest is padding: id -1 (None among
    string ids) at distance infinity.
    """

    ids: Any
    """int64 (q, k); for string ids a list of q lists of k strings."""
    distances: Tensor
    """Squared distances, float32 (q, k), ascending; Hamming distances for bits."""


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
        return cls(
            np.full(shape, np.inf, dtype=np.float32),
            np.full(shape, NO_KEY, dtype=np.int64),
            np.full(shape, -1, dtype=np.int64),
        )

    def part(self, start: int, stop: int) -> "Best":
        """The heaps of some queries, the same memory."""
        return Best(*(column[start:stop] for column in self))

    def ranked(self) -> "Best":
        """Ascending by distance, then key."""
        order = np.lexsort((self.keys, self.distances), axis=1)
        return Best(*(np.take_along_axis(column, order, axis=1) for column in self))

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
        ids = np.where(self.places < 0, NO_ID, self.keys)
        return torch.from_numpy(ids), torch.from_numpy(self.distances)

"""Heaps of the best items, compiled. Their root is the worst: see ``best``.

An item is worse if its distance is larger, or as large and its id larger.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.compiled import compiled_in_place

Array = NDArray[Any]


@compiled_in_place
def push(distances: Array, keys: Array, places: Array, new: tuple[Any, ...]) -> None:
    """Replaces the root of a heap (k,) by ``new`` (distance, key, place) and sifts."""
    distance, key, place = new
    size = distances.shape[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            distances[other] > distances[child]
            or (distances[other] == distances[child] and keys[other] > keys[child])
        ):
            child = other
        if distances[child] < distance or (
            distances[child] == distance and keys[child] < key
        ):
            break
        distances[at] = distances[child]
        keys[at] = keys[child]
        places[at] = places[child]
        at = child
    distances[at] = distance
    keys[at] = key
    places[at] = place


@compiled_in_place
def key_of(short: Array, long: Array, first: int, at: int) -> Any:
    """The id of the item at a position, by ``ids32``, ``ids64`` or ``first``."""
    if short.size:
        return np.int64(short[at])
    if long.size:
        return np.int64(long[at])
    return np.int64(first + at)


@compiled_in_place
def offer(
    heap: tuple[Array, Array, Array], columns: tuple[Any, ...], value: Any, at: int
) -> None:
    """Puts an item of ``Columns`` into a heap if it is nearer than the root."""
    distances, keys, places = heap
    value = max(value, np.float32(0))
    if value > distances[0]:
        return
    key = key_of(columns[2], columns[3], columns[5], at)
    if value < distances[0] or key < keys[0]:
        push(distances, keys, places, (value, key, np.int64(columns[6] + at)))


@compiled_in_place
def merge(heap: tuple[Array, Array, Array], found: tuple[Array, Array, Array]) -> None:
    """Puts the items of one heap into another."""
    distances, keys, places = heap
    for i in range(found[0].shape[0]):
        new = (found[0][i], found[1][i], found[2][i])
        nearer = new[0] < distances[0] or (new[0] == distances[0] and new[1] < keys[0])
        if new[2] >= 0 and nearer:
            push(distances, keys, places, new)


@compiled_in_place
def sort(distances: Array, keys: Array, places: Array) -> None:
    """A heap (k,) to ascending order: its root, the worst, goes last, and so on."""
    for last in range(distances.shape[0] - 1, 0, -1):
        worst, key, place = distances[0], keys[0], places[0]
        moved = (distances[last], keys[last], places[last])
        push(distances[:last], keys[:last], places[:last], moved)
        distances[last], keys[last], places[last] = worst, key, place


@compiled_in_place
def sort_heaps(heaps: tuple[Any, ...]) -> None:
    """Heaps (q, k) to ascending order by distance, then key, in place."""
    distances, keys, places = heaps
    for q in range(distances.shape[0]):
        sort(distances[q], keys[q], places[q])

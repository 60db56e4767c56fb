"""Items that are nearly the same: pairs within a distance, and groups of them."""

from typing import Any, NamedTuple

from torch import Tensor

from gradsnap.collection.queries import vectors_of
from gradsnap.errors import InputError
from gradsnap.index import Index
from gradsnap.progress import track

ROWS = 512
"""Items compared with all others at once."""

SHARE = 0.08
"""Of the mean squared distance of two items: what is nearer is a near-duplicate,
where no distance is given."""

SAMPLE = 2048


class Duplicate(NamedTuple):
    """An item of a group."""

    item: int | str
    distance: float
    """Squared distance to the first item of its group."""


class Duplicates(NamedTuple):
    """Groups of items that are nearly the same, the largest first."""

    within: float
    """Squared distance up to which two items are taken for the same."""
    groups: list[list[Duplicate]]
    """In each the items in the order of the index."""


def find_duplicates(
    index: Index, within: float | None = None, where: str | None = None
) -> Duplicates:
    """Groups of items of which each is within a distance of another one.

    Every two items are compared by what the index keeps of their vectors; the time
    grows with the square of their number.

    Args:
        index: of vectors or images.
        within: squared distance; 8 % of the mean of all pairs if not given.
        where: a condition that items must fulfil.

    Raises:
        InputError: the distance is negative, or the index keeps no vectors.
    """
    if within is not None and not within >= 0:
        raise InputError(f"--within must be a distance of at least 0, got {within}")
    ids: Any = index.select(where)
    if len(ids) < 2:
        return Duplicates(within or 0.0, [])
    vectors = vectors_of(index, ids)
    limit = SHARE * _mean_distance(vectors) if within is None else within
    pairs = near_pairs(vectors, limit)
    groups = [
        [_member(ids, vectors, place, group[0]) for place in group]
        for group in _joined(pairs, len(vectors))
    ]
    return Duplicates(limit, sorted(groups, key=len, reverse=True))


def near_pairs(vectors: Tensor, within: float) -> list[tuple[int, int]]:
    """Places i < j of vectors (n, dim) with ‖xᵢ − xⱼ‖² ≤ within, in order.

    A product of matrices finds candidates, ‖a‖² + ‖b‖² − 2 ab; as it rounds, each is
    computed again from the difference.
    """
    lengths = vectors.square().sum(dim=1)
    slack = 1e-4 * float(lengths.max())
    found: list[tuple[int, int]] = []
    for start in track(range(0, len(vectors), ROWS), "comparing every two items"):
        some = vectors[start : start + ROWS]
        rest, total = vectors[start:], lengths[start:]
        rough = lengths[start : start + ROWS, None] + total - 2 * some @ rest.T
        near = (rough <= within + slack).triu(diagonal=1)
        places = near.nonzero()
        exact = (some[places[:, 0]] - rest[places[:, 1]]).square().sum(dim=1)
        close = places[exact <= within] + start
        found += [(first, second) for first, second in close.tolist()]
    return found


def _joined(pairs: list[tuple[int, int]], count: int) -> list[list[int]]:
    """Places that pairs join, directly or through others; by the first of each."""
    top = list(range(count))

    def first(place: int) -> int:
        while top[place] != place:
            top[place] = top[top[place]]
            place = top[place]
        return place

    for one, other in pairs:
        low, high = sorted((first(one), first(other)))
        top[high] = low
    groups: dict[int, list[int]] = {}
    for place in sorted({place for pair in pairs for place in pair}):
        groups.setdefault(first(place), []).append(place)
    return list(groups.values())


def _member(ids: Any, vectors: Tensor, place: int, first: int) -> Duplicate:
    far = float((vectors[place] - vectors[first]).square().sum())
    one = ids[place]
    return Duplicate(one if isinstance(one, str) else int(one), far)


def _mean_distance(vectors: Tensor) -> float:
    """Mean squared distance of two of the vectors: 2 · their variance."""
    some = vectors[:: max(1, len(vectors) // SAMPLE)].double()
    return 2 * float(some.var(dim=0, correction=0).sum())

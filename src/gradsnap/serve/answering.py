"""A batch of queries to their nearest items: alike ones are searched together."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradsnap.errors import InputError
from gradsnap.index import Index, SearchResult
from gradsnap.index.lists import ListedIndex
from gradsnap.serve.elsewhere import Elsewhere, Nearest
from gradsnap.serve.floats import nearest_by_floats
from gradsnap.serve.opened import Version
from gradsnap.serve.plain import plain_row
from gradsnap.serve.refusals import Refusal, no_item, unreadable

Array = NDArray[Any]
Id = int | str


@dataclass(frozen=True)
class Options:
    """How is searched; queries that agree in it go through the index together."""

    k: int = 10
    probe: int | None = None
    """Lists to look into; None for as many as the index does by itself."""
    rerank: int | None = None
    """As of ``Index.search``."""
    where: str | None = None
    """A condition on metadata."""
    within: tuple[Id, ...] | None = None
    """Ids to search among."""
    floats: bool = False
    """Rank by kept embeddings instead of codes."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """A query: a vector (dim,), or an item of the index."""

    options: Options
    vector: Array | None = None
    """float32 (dim,)."""
    item: Id | None = None
    version: Version | None = None
    """Which one to search; the newest if None."""
    metadata: bool = True
    """Whether results come with their metadata."""


@dataclass(frozen=True, eq=False)
class Found:
    """The nearest items of one query, nearest first."""

    ids: list[Id]
    distances: list[float]
    metadata: list[dict[str, Any]]
    """Empty rows where none was asked for."""
    version: Version
    milliseconds: float
    """Of the search, together with the queries of its batch."""
    together: int
    """How many queries that were."""
    missing: dict[str, str]
    """Shards that did not answer, and why; empty where all did."""


def answers(newest: Version, queries: Sequence[Wanted]) -> list[Found | Exception]:
    """The answer to each query, or why there is none."""
    found: list[Found | Exception] = [no_item("")] * len(queries)
    groups: dict[tuple[Version, Options, bool], list[int]] = defaultdict(list)
    for place, one in enumerate(queries):
        version = one.version or newest
        if one.item is not None and one.item not in version.index:
            found[place] = no_item(one.item)
        else:
            groups[version, one.options, one.item is not None].append(place)
    for (version, options, _), places in groups.items():
        alike = [queries[place] for place in places]
        for place, answer in zip(places, _group(version, options, alike), strict=True):
            found[place] = answer
    return found


def _group(
    version: Version, options: Options, queries: list[Wanted]
) -> Sequence[Found | Exception]:
    started = time.perf_counter()
    try:
        rows, missing = _found(version, options, queries)
    except InputError as error:
        return [unreadable(str(error))] * len(queries)
    took = 1000 * (time.perf_counter() - started)
    count = len(rows)
    words = _metadata(version.index, rows, any(one.metadata for one in queries))
    return [
        Found(*_columns(row), known, version, took, count, missing)
        for row, known in zip(rows, words, strict=True)
    ]


def _found(version: Version, options: Options, queries: list[Wanted]) -> Nearest:
    """Ids and distances of each query: found elsewhere where that can be asked."""
    there = version.elsewhere
    if there is None or not _can_ask(there, options):
        result = _nearest(version.index, options, queries)
        return Nearest([_kept(*pair) for pair in zip(*_lists(result), strict=True)], {})
    rows = [one.vector for one in queries if one.vector is not None]
    items: list[Any] = [one.item for one in queries if one.item is not None]
    if rows:
        vectors = torch.from_numpy(np.stack(rows))  # (q, dim)
    else:
        vectors = version.index.reconstruct(items)
    return there.nearest(vectors, options.k, options.probe, options.where)


def _can_ask(there: Elsewhere, options: Options) -> bool:
    """Whether a search elsewhere takes these options."""
    here = options.floats or options.within is not None or options.rerank
    return not here and (options.where is None or there.filters)


def _columns(row: list[tuple[Id, float]]) -> tuple[list[Id], list[float]]:
    return [one for one, _ in row], [far for _, far in row]


def _nearest(index: Index, options: Options, queries: list[Wanted]) -> SearchResult:
    """One search for queries that agree in all options."""
    own: dict[str, Any] = {"where": options.where}
    if options.within is not None:
        own["within"] = list(options.within)
    rows = [one.vector for one in queries if one.vector is not None]
    items: list[Any] = [one.item for one in queries if one.item is not None]
    if options.floats:
        vectors = torch.from_numpy(np.stack(rows)) if rows else None
        return nearest_by_floats(index, vectors, items, options.k, **own)
    with probing(index, options.probe):
        if rows:
            vectors = torch.from_numpy(np.stack(rows))  # (q, dim)
            return index.search(vectors, options.k, rerank=options.rerank, **own)
        return index.search_items(items, options.k, rerank=options.rerank, **own)


class probing:
    """An index that looks into so many lists for a while; by one thread at a time.

    Raises:
        Refusal: the index has no lists.
    """

    def __init__(self, index: Index, probe: int | None) -> None:
        self.index, self.probe, self.before = index, probe, 0

    def __enter__(self) -> None:
        if self.probe is None:
            return
        if not isinstance(self.index, ListedIndex):
            raise InputError(f"probe is for lists, and this is {self.index.kind}")
        self.before, self.index.probes = self.index.probes, self.probe

    def __exit__(self, *error: object) -> None:
        if self.before and isinstance(self.index, ListedIndex):
            self.index.probes = self.before


def _lists(result: SearchResult) -> tuple[list[list[Any]], list[list[float]]]:
    ids = result.ids if isinstance(result.ids, list) else result.ids.tolist()
    return ids, result.distances.tolist()


def _kept(ids: list[Any], distances: list[float]) -> list[tuple[Id, float]]:
    """Without the padding where fewer items could be found."""
    pairs = zip(ids, distances, strict=True)
    return [(one, far) for one, far in pairs if one != -1 and one is not None]


def _metadata(
    index: Index, rows: list[list[tuple[Id, float]]], wanted: bool
) -> list[list[dict[str, Any]]]:
    """The metadata of all results, looked up at once."""
    if not wanted or not has_metadata(index):
        return [[] for _ in rows]
    every: list[Any] = [one for row in rows for one, _ in row]
    words = iter(index.metadata(every) if every else [])
    return [[plain_row(next(words)) for _ in row] for row in rows]


def has_metadata(index: Index) -> bool:
    """Whether anything is kept beside the codes."""
    return any(segment.stored is not None for segment in index.items.segments)


def item_id(index: Index, given: Id) -> Id:
    """An id of the index's own type; a decimal text is a number where ids are numbers.

    Raises:
        Refusal: the index holds no such item.
    """
    if index.items.named:
        found: Id = str(given)
    elif isinstance(given, str) and given.isascii() and given.isdecimal():
        found = int(given)
    else:
        found = given
    if isinstance(found, int) and not 0 <= found < 2**63 - 1:
        raise no_item(given)
    if found not in index:
        raise no_item(given)
    return found


def checked_vector(index: Index, numbers: Any) -> Array:
    """A query, float32 (dim,), of numbers.

    Raises:
        Refusal: its length is another, or a number is not finite.
    """
    dim = index.coder.dim
    if not index.takes_vectors:
        raise Refusal(422, "this index holds ready hashes: search it by id")
    with np.errstate(over="ignore"):
        row = np.asarray(numbers, dtype=np.float32)
    if row.shape != (dim,):
        raise unreadable(f"a vector of this index has {dim} numbers, got {row.size}")
    if not np.isfinite(row).all():
        raise unreadable("every number of a vector must be finite")
    return row

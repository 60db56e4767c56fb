"""Searching shards: each answers for its own items, and answers are merged exactly."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from gradsnap.errors import GradsnapError, InputError
from gradsnap.index import Index, load_index
from gradsnap.scale.merging import Found, merged
from gradsnap.scale.ray_cluster import Failed, joined_ray
from gradsnap.scale.shard_folders import shards_in
from gradsnap.scale.workers import check_on


class Ask(NamedTuple):
    """What all shards are asked."""

    queries: NDArray[Any]
    """float32 (q, dim)."""
    k: int
    where: str | None = None
    probes: int | None = None


class Part(NamedTuple):
    """What one shard answers."""

    results: list[list[Found]]
    """Of each query, nearest first."""
    known: dict[Any, dict[str, Any]]
    """What it knows of the items it found, by id."""


class Answer(NamedTuple):
    """What all shards answer together."""

    results: list[list[Found]]
    known: dict[Any, dict[str, Any]]
    missing: dict[str, str]
    """Shards that did not answer, and why; only where that is allowed."""


Asking = Callable[[Ask, float | None], dict[str, Part | Failed]]
"""Asks all shards; those that have not answered in so many seconds are not in it."""


class Shards:
    """All shards of a folder.

    Args:
        names: of the shards, in order.
        asking: how they are asked.
    """

    def __init__(self, names: Sequence[str], asking: Asking) -> None:
        self.names, self._asking = tuple(names), asking

    def search(self, ask: Ask, partial: float | None = None) -> Answer:
        """The nearest items of all shards: as one index of all items would answer.

        Args:
            ask: queries, and how many of each.
            partial: None waits until every shard has answered. A number of seconds is
                waited, and what has answered by then is merged; the rest is missing.

        Raises:
            InputError: a shard cannot answer, and ``partial`` is None; none can.
        """
        found = self._asking(ask, partial)
        missing = {
            name: "no answer in time" if part is None else part.sentence
            for name in self.names
            for part in [found.get(name)]
            if not isinstance(part, Part)
        }
        if missing and (partial is None or len(missing) == len(self.names)):
            name, reason = next(iter(missing.items()))
            raise InputError(f"{name} cannot answer: {reason}")
        parts = [found[name] for name in self.names if name not in missing]
        return _joined([one for one in parts if isinstance(one, Part)], ask, missing)


@contextlib.contextmanager
def opened_shards(folder: Path, on: str | None = None) -> Iterator[Shards]:
    """The shards of a folder: opened here, or each by an actor of its own on Ray."""
    check_on(on)
    names = shards_in(folder)["shards"]
    if on is None:
        own = {name: ShardSearcher(str(folder / name)) for name in names}
        yield Shards(names, lambda ask, _: {n: one.ask(ask) for n, one in own.items()})
        return
    with joined_ray(on) as ray:
        actors = _actors(ray, folder, names)
        try:
            yield Shards(names, lambda ask, left: _asked(ray, actors, ask, left))
        finally:
            for actor in actors.values():
                ray.kill(actor)


class ShardSearcher:
    """One shard, opened at the first question.

    Args:
        folder: an index folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._index: Index | None = None

    def ask(self, ask: Ask) -> Part | Failed:
        """Its own answer; an error of ours is handed back as it is."""
        try:
            return self._answer(ask)
        except GradsnapError as error:
            return Failed(type(error), str(error))

    def _answer(self, ask: Ask) -> Part:
        if self._index is None:
            self._index = load_index(self.folder)
        index = self._index
        if ask.probes is not None and index.num_lists is not None:
            index.probes = ask.probes  # type: ignore[attr-defined]
        queries = torch.from_numpy(ask.queries.copy())
        ids, distances = index.search(queries, ask.k, where=ask.where)
        rows = ids if isinstance(ids, list) else ids.tolist()
        results = [
            [pair for pair in zip(own, far, strict=True) if pair[0] not in (-1, None)]
            for own, far in zip(rows, distances.tolist(), strict=True)
        ]
        return Part(results, described(index, results))


def described(
    index: Index, results: Sequence[Sequence[Found]]
) -> dict[Any, dict[str, Any]]:
    """Path and metadata of all items that were found, by id."""
    ids = list(dict.fromkeys(one for found in results for one, _ in found))
    words = index.metadata(ids) if ids else []
    paths = bool(index.roots)
    return {
        one: ({"path": index.roots.shown(one)} if paths else {}) | own
        for one, own in zip(ids, words, strict=True)
    }


def _joined(parts: Sequence[Part], ask: Ask, missing: Mapping[str, str]) -> Answer:
    results = [
        merged([part.results[place] for part in parts], ask.k)
        for place in range(len(ask.queries))
    ]
    wanted = {one for found in results for one, _ in found}
    known = {
        one: words
        for part in parts
        for one, words in part.known.items()
        if one in wanted
    }
    return Answer(results, known, dict(missing))


def _actors(ray: Any, folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """An actor a shard; one that dies is started again and answers then."""
    cores = float(ray.cluster_resources().get("CPU", 1))
    made = ray.remote(
        num_cpus=min(1.0, cores / len(names)), max_restarts=-1, max_task_retries=-1
    )(ShardSearcher)
    return {name: made.remote(str((folder / name).resolve())) for name in names}


def _asked(
    ray: Any, actors: Mapping[str, Any], ask: Ask, partial: float | None
) -> dict[str, Part | Failed]:
    shared = ray.put(ask)
    waiting = {actor.ask.remote(shared): name for name, actor in actors.items()}
    ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=partial)
    return {waiting[one]: ray.get(one) for one in ready}

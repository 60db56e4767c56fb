"""What can be served: an index folder, a folder of shards, a Lance table."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gradsnap.errors import InputError
from gradsnap.index import Index, load_index
from gradsnap.index.folder_reading import MANIFEST
from gradsnap.scale.kinds import MARK, is_sharded, is_table
from gradsnap.serve.elsewhere import Elsewhere, LanceSearch, ShardSearch
from gradsnap.serve.settings import ServeSettings

Stamp = tuple[int, ...] | None
"""What differs when there is a new version; None while nothing is there."""


@dataclass(frozen=True)
class Content:
    """One version of what is served."""

    index: Index
    generation: int
    elsewhere: Elsewhere | None = None
    """Who searches in place of the index; None where it does so itself."""


class Place(Protocol):
    """Where versions come from."""

    address: str
    writable: bool
    """Whether a server may add and remove items."""

    def stamp(self) -> Stamp:
        """What differs when there is a new version."""

    def open(self) -> Content:
        """The newest version."""

    def close(self) -> None:
        """Ends what was started for it."""


def place_to_serve(address: str | os.PathLike[str], settings: ServeSettings) -> Place:
    """What a path or address is.

    Raises:
        InputError: an option is for shards, and this is something else.
    """
    word = os.fspath(address)
    if is_table(word):
        _refuse_ray(word, settings)
        return TablePlace(word)
    if is_sharded(word):
        return ShardsPlace(word, settings)
    _refuse_ray(word, settings)
    return FolderPlace(word)


def _refuse_ray(word: str, settings: ServeSettings) -> None:
    for flag, value in (("--on", settings.on), ("--partial", settings.partial)):
        if value is not None:
            raise InputError(
                f"{flag} is for a folder of shards, and {word} is none: gradsnap index "
                "TABLE.lance --shards N --out FOLDER makes one"
            )


class FolderPlace:
    """An index folder.

    Args:
        address: its path.
    """

    writable = True

    def __init__(self, address: str) -> None:
        self.address = address

    def stamp(self) -> Stamp:
        """That of the manifest."""
        return _stamp_of(Path(self.address) / MANIFEST)

    def open(self) -> Content:
        """The index, mapped from its files."""
        index = load_index(self.address)
        generation = 0 if index.origin is None else index.origin.manifest["generation"]
        return Content(index, generation)

    def close(self) -> None:
        """There is nothing to end."""


class TablePlace:
    """A Lance table of codes; every commit is a version.

    Args:
        address: of the table.
    """

    writable = False

    def __init__(self, address: str) -> None:
        self.address = address

    def stamp(self) -> Stamp:
        """The newest version's number."""
        from gradsnap.scale.table import newest_version

        found = newest_version(self.address)
        return None if found is None else (found,)

    def open(self) -> Content:
        """Its rows in memory, and Lance's index where the table has one."""
        from gradsnap.scale.held import held_table
        from gradsnap.scale.lance_index import has_index
        from gradsnap.scale.table import CodeTable

        table = CodeTable(self.address)
        there = LanceSearch(table) if has_index(table) and len(table) else None
        return Content(held_table(table), int(table.dataset.version), there)

    def close(self) -> None:
        """There is nothing to end."""


class ShardsPlace:
    """Shards: searched by this process, or each by an actor of a Ray cluster.

    Args:
        address: of their folder.
        settings: where they are searched, and how long a dead one is waited for.
    """

    writable = False

    def __init__(self, address: str, settings: ServeSettings) -> None:
        self.address, self.settings = address, settings
        self._running: Any = None
        if settings.partial is not None and settings.on is None:
            raise InputError("--partial is for shards that are asked with --on ray")

    def stamp(self) -> Stamp:
        """That of the list of shards, which is written last."""
        return _stamp_of(Path(self.address) / MARK)

    def open(self) -> Content:
        """All shards as one index, and the actors that search it."""
        from gradsnap.scale.held import joined_shards
        from gradsnap.scale.shard_folders import shards_in

        folder = Path(self.address)
        index = joined_shards(folder)
        there = None if self.settings.on is None else self._actors(index)
        return Content(index, int(shards_in(folder)["version"]), there)

    def close(self) -> None:
        """Ends the actors, and the cluster if it was started here."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _actors(self, index: Index) -> ShardSearch:
        from gradsnap.scale.sharded import opened_shards

        self.close()
        self._running = contextlib.ExitStack()
        opened = opened_shards(Path(self.address), self.settings.on)
        shards = self._running.enter_context(opened)
        return ShardSearch(shards, index.num_lists, self.settings.partial)


def _stamp_of(path: Path) -> Stamp:
    """What changes when a file is replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

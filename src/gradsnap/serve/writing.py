"""Items added and removed over HTTP: each change is saved before it is answered."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from torch import Tensor

from gradsnap.errors import BusyError, InputError
from gradsnap.index import Index, load_index
from gradsnap.serve.opened import OpenedIndex
from gradsnap.serve.refusals import Refusal, no_item, unreadable

logger = logging.getLogger(__name__)

MOST_SEGMENTS = 64
"""Saves that stay apart; more are put together, so that searches stay fast."""

TRIES = 3
"""Another process may have saved between reading and writing."""


class Writer:
    """One writer of a folder in this process.

    Args:
        opened: the folder.
    """

    def __init__(self, opened: OpenedIndex) -> None:
        self.opened = opened
        self._one = threading.Lock()

    def add(self, vector: Tensor, item: Any, metadata: dict[str, Any]) -> Any:
        """Adds a vector (dim,); returns its id.

        Raises:
            Refusal: the id is known, or of another kind than those of the index.
        """

        def change(index: Index) -> Any:
            given = item
            if given is None and index.items.named:
                raise unreadable("the ids of this index are texts: give the item an id")
            if given is None:
                given = index.items.next_id
            if given in index:
                raise Refusal(409, f"there is an item {given!r} already")
            columns = {name: [value] for name, value in metadata.items()} or None
            index.add(vector[None], [given], columns)
            return given

        return self._changed(change)

    def remove(self, item: Any) -> None:
        """Removes an item.

        Raises:
            Refusal: there is none of that id.
        """

        def change(index: Index) -> None:
            if item not in index:
                raise no_item(item)
            index.remove([item])

        self._changed(change)

    def _changed(self, change: Callable[[Index], Any]) -> Any:
        """Reads the folder, changes it, saves it, and opens what was saved."""
        with self._one:
            for attempt in range(TRIES):
                index = load_index(self.opened.folder)
                try:
                    made = change(index)
                except InputError as error:
                    raise unreadable(str(error)) from error
                if len(index.items.segments) > MOST_SEGMENTS:
                    index.compact()
                try:
                    index.save(self.opened.folder)
                except BusyError as error:
                    if attempt == TRIES - 1:
                        raise Refusal(
                            503,
                            "another process writes; try again",
                            {"retry-after": "1"},
                        ) from error
                    continue
                except InputError as error:  # a full disk, no permission
                    logger.error("%s cannot be saved: %s", self.opened.name, error)
                    raise Refusal(
                        500, "this could not be saved; the server's log says why"
                    ) from error
                self.opened.refresh()
                return made
        return None

"""An index that stays open: opened anew when a writer saved a new version.

A request keeps the version it began with; the next one gets the new version. Nothing
is dropped, and a version goes when nobody reads it any more.
"""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsnap.errors import GradsnapError, InputError
from gradsnap.index import Index
from gradsnap.index.scanning import FEWEST
from gradsnap.inference.model import Model, load, place_of_model
from gradsnap.serve.elsewhere import Elsewhere
from gradsnap.serve.places import Place
from gradsnap.serve.settings import ServeSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Version:
    """An index as one save left it, and the model that embeds its queries."""

    index: Index
    model: Model | None
    """None where only vectors and items can be asked for."""
    generation: int
    """How often it was saved."""
    elsewhere: Elsewhere | None = None
    """Who searches in place of the index; None where it does so itself."""

    @property
    def fingerprint(self) -> str | None:
        """Of the codebooks, which queries must be embedded for."""
        return self.index.fingerprint


class OpenedIndex:
    """A place, and its newest version.

    Args:
        name: what requests call it.
        place: an index folder, a folder of shards or a table.
        settings: where the model lies, if it was moved.

    Raises:
        InputError: there is no index, or its model is not that of its codes.
    """

    def __init__(self, name: str, place: Place, settings: ServeSettings) -> None:
        self.name, self.place, self.settings = name, place, settings
        self._opening = threading.Lock()
        self._seen = place.stamp()
        self.version = self._open(None)
        self.reopened = 0

    def refresh(self) -> bool:
        """Opens the place anew if it was saved; whether it was.

        One that cannot be opened leaves the version that is served.
        """
        with self._opening:
            stamp = self.place.stamp()
            if stamp == self._seen or stamp is None:
                return False
            try:
                self.version = self._open(self.version)
            except (GradsnapError, OSError) as error:
                logger.warning("%s cannot be opened anew: %s", self.name, error)
                self._seen = stamp
                return False
            self._seen = stamp
            self.reopened += 1
            return True

    @property
    def folder(self) -> Path:
        """The path of the place, where it is one."""
        return Path(self.place.address)

    def _open(self, before: Version | None) -> Version:
        content = self.place.open()
        index = content.index
        if self.settings.root is not None and index.roots:
            index.roots = index.roots.moved("", self.settings.root)
        if content.elsewhere is None:
            _warm(index)
        same = before is not None and before.fingerprint == index.fingerprint
        model = before.model if before is not None and same else self._model(index)
        return Version(index, model, content.generation, content.elsewhere)

    def _model(self, index: Index) -> Model | None:
        given = self.settings.model
        place = place_of_model(index) if given is None else Path(given)
        if place is None or (given is None and not place.is_dir()):
            return None
        model = load(place, self.settings.network_from)
        try:
            model.check_index(index)
        except InputError:
            if given is not None:
                raise
            logger.warning("the model of %s was trained anew; vectors only", self.name)
            return None
        return model


def _warm(index: Index) -> None:
    """Unpacks codes and loads kernels now, so that the first query need not."""
    for _ in index.items.columns():
        pass
    if len(index):
        some = index.items.segments[0]
        known = some.all_ids() if some.names is None else some.names
        live = some.counted()[:1].tolist()
        ids: list[Any] = [known[at] for at in live] * FEWEST
        for count in (1, FEWEST) if live else ():
            index.search_items(ids[:count], 1)

"""A server reads its index files again and again, slowly, to notice damage early."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

from gradsnap.errors import GradsnapError
from gradsnap.index.blocks import check_block, every_block
from gradsnap.index.folder_reading import SMALL, check_files
from gradsnap.serve.opened import OpenedIndex

logger = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds between two blocks of four MiB: a disk is kept busy for a few percent."""

ROUND = 3600.0
"""Seconds from the end of one round to the next."""


class Scrubber:
    """Looks at one version of an index, block after block.

    Args:
        opened: the folder that is served.
    """

    def __init__(self, opened: OpenedIndex) -> None:
        self.opened = opened
        self.damage: str | None = None
        """What was found to be changed, in a sentence; None while all is well."""
        self.looked_at = 0
        """Blocks compared so far."""
        self._token: str | None = None

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        while True:
            for path, sums, number in self._blocks():
                await asyncio.to_thread(self.look, path, sums, number)
                await asyncio.sleep(PAUSE)
            await asyncio.sleep(ROUND)

    def look(self, path: Path, sums: str, number: int) -> None:
        """Compares one block; remembers and logs what does not fit."""
        self.looked_at += 1
        try:
            check_block(path, sums, number)
        except FileNotFoundError:
            return  # a writer has put a newer version in its place
        except (GradsnapError, OSError) as error:
            if self.damage is None:
                logger.error("%s is damaged: %s", self.opened.name, error)
            self.damage = str(error)

    def _blocks(self) -> Iterator[tuple[Path, str, int]]:
        """Of the newest version; small files are compared at once."""
        origin = self.opened.version.index.origin
        if origin is None:
            return
        if origin.manifest["token"] != self._token:
            self._token, self.damage = origin.manifest["token"], None
        files = origin.manifest["files"]
        small = {n: one for n, one in files.items() if one["bytes"] <= SMALL}
        try:
            check_files(origin.folder, origin.manifest | {"files": small})
        except (GradsnapError, OSError) as error:
            if self.opened.version.index.origin is origin:
                self.damage = str(error)
        yield from every_block(origin.folder, origin.manifest)

"""Everything a server holds: its indexes with their queues, thumbnails, metrics."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from gradsnap.serve.answering import Found, Wanted, answers
from gradsnap.serve.batching import Batcher
from gradsnap.serve.embedding import Embedded, Embedder, Picture
from gradsnap.serve.metrics import Metrics
from gradsnap.serve.opened import OpenedIndex, Version
from gradsnap.serve.places import place_to_serve
from gradsnap.serve.refusals import Refusal, busy, unreadable
from gradsnap.serve.scrubbing import Scrubber
from gradsnap.serve.security import Access
from gradsnap.serve.settings import ServeSettings
from gradsnap.serve.thumbnails import Thumbnails
from gradsnap.serve.uploads import decode_upload
from gradsnap.serve.writing import Writer

Result = TypeVar("Result")

DECODERS = 2
"""Threads that decode pictures."""

MOST_PICTURES = 512
"""Pictures that may be decoded or wait for it."""


class Served:
    """One index: its newest version, and the queues before it.

    Args:
        opened: the folder.
        settings: sizes of queues and batches.
        metrics: where batches are counted.
        decoders: threads that decode pictures.
    """

    def __init__(
        self,
        opened: OpenedIndex,
        settings: ServeSettings,
        metrics: Metrics,
        decoders: "Decoders",
    ) -> None:
        self.opened, self.settings, self.metrics = opened, settings, metrics
        self.decoders = decoders
        self.writer = Writer(opened)
        self.scrubber = Scrubber(opened)
        self._kept: dict[str, tuple[int, Any]] = {}
        make = partial(
            Batcher,
            window=settings.window_milliseconds / 1000,
            batch=settings.batch,
            queue=settings.queue,
        )
        self.searching: Batcher[Wanted, Found] = make(
            self._answers, name="search", observe=self._observer("search")
        )
        self.embedding: Batcher[Picture, Embedded] = make(
            Embedder(settings.engine).answers,
            name="embed",
            observe=self._observer("embed"),
        )

    @property
    def version(self) -> Version:
        """The newest."""
        return self.opened.version

    async def found(self, wanted: Wanted) -> Found:
        """The nearest items of a query."""
        return await self.searching.ask(wanted)

    async def embedded(self, picture: bytes) -> Embedded:
        """The embedding of a picture file.

        Raises:
            Refusal: it cannot be decoded, the index knows no model, or too many wait.
        """
        version = self.version
        model = version.model
        if model is None:
            raise unreadable(
                "this index knows no model to embed pictures: send vectors"
            )
        pixels = await self.decoders.call(
            decode_upload, model, picture, self.settings.pixels
        )
        return await self.embedding.ask(Picture(pixels, version, model))

    async def once_a_version(self, name: str, work: Any, *arguments: Any) -> Any:
        """What ``work`` gives, computed once for each version, between two batches."""
        generation = self.version.generation
        if self._kept.get(name, (None,))[0] != generation:
            made = await self.searching.call(work, *arguments)
            self._kept[name] = generation, made
        return self._kept[name][1]

    async def warm(self) -> None:
        """Makes the engine that embeds pictures, before the first one comes."""
        model = self.version.model
        if model is None or not (model.spec.side and model.spec.channels):
            return
        shape = (1, model.spec.channels, model.spec.side, model.spec.side)
        blank = Picture(torch.zeros(shape, dtype=torch.uint8), self.version, model)
        with contextlib.suppress(Exception):  # a picture that comes will say why
            await self.embedding.ask(blank)

    async def refresh(self) -> bool:
        """Opens a version that was saved meanwhile."""
        changed = await asyncio.to_thread(self.opened.refresh)
        self.count()
        return changed

    def count(self) -> None:
        """Tells the metrics what is served."""
        name, metrics = self.opened.name, self.metrics
        metrics.items.labels(name).set(len(self.version.index))
        metrics.version.labels(name).set(self.version.generation)
        metrics.reopened.labels(name).set(self.opened.reopened)
        metrics.damaged.labels(name).set(self.scrubber.damage is not None)
        metrics.queued.labels(name).set(len(self.searching) + len(self.embedding))

    async def close(self) -> None:
        """Ends the threads."""
        await self.searching.close()
        await self.embedding.close()
        self.opened.place.close()

    def _answers(self, queries: Any) -> Any:
        return answers(self.version, queries)

    def _observer(self, step: str) -> Any:
        sizes = self.metrics.batches.labels(self.opened.name, step)
        waits = self.metrics.waited.labels(self.opened.name, step)

        def observe(size: int, waited: float) -> None:
            sizes.observe(size)
            waits.observe(waited)

        return observe


class Decoders:
    """A few threads that decode pictures, and a bound on what waits for them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(DECODERS, thread_name_prefix="decode")
        self._waiting = 0

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """What a function gives, run in one of the threads.

        Raises:
            Refusal: too many wait already.
        """
        if self._waiting >= MOST_PICTURES:
            raise busy()
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, function, *arguments)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)


class Service:
    """The indexes by name, and what they share.

    Args:
        folders: index folders, folders of shards and addresses of tables by name; the
            first is the one meant by none.
        settings: of the server.
    """

    def __init__(
        self, folders: Mapping[str, str | Path], settings: ServeSettings
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.access = Access(settings.token)
        self.thumbnails = Thumbnails(settings.pixels)
        self.decoders = Decoders()
        self.by_name = {
            name: Served(
                OpenedIndex(name, place_to_serve(address, settings), settings),
                settings,
                self.metrics,
                self.decoders,
            )
            for name, address in folders.items()
        }
        for served in self.by_name.values():
            served.count()
        self.ready = False

    def named(self, name: str | None) -> Served:
        """The index of a name; the first for None.

        Raises:
            Refusal: there is none.
        """
        if name is None:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            known = ", ".join(self.by_name)
            raise Refusal(404, f"there is no index {name[:80]!r}; there are {known}")
        return self.by_name[name]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Looks for new versions while requests are answered; ends threads after."""
        works = [self._watch(), *(one.scrubber.run() for one in self.by_name.values())]
        tasks = [asyncio.create_task(work) for work in works]
        self.ready = True
        try:
            yield
        finally:
            self.ready = False
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            for served in self.by_name.values():
                await served.close()
            self.decoders.close()

    async def _watch(self) -> None:
        for served in self.by_name.values():
            await served.warm()
        while True:
            await asyncio.sleep(self.settings.reopen_seconds)
            for served in self.by_name.values():
                await served.refresh()

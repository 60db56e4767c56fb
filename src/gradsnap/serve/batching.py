"""Queries that arrive together are answered together, by one thread.

A batch that is smaller than the last one waits a few milliseconds for more to come; so
a lone caller never waits, and a crowd is searched in full batches. The queue is
bounded: whoever comes when it is full is refused at once.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from gradsnap.serve.refusals import busy

Query = TypeVar("Query")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Waiting(NamedTuple, Generic[Query, Answer]):
    """A query in the queue."""

    query: Query
    answer: "asyncio.Future[Answer]"
    since: float


class Batcher(Generic[Query, Answer]):
    """A bounded queue before one thread.

    Args:
        work: answers queries in the thread; an answer that is an exception is raised
            at whoever asked.
        window: seconds a batch waits for more.
        batch: queries of a batch at most.
        queue: queries that may wait.
        name: of the thread.
        observe: told the size of every batch and the seconds its first query waited.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Query]], Sequence[Answer | Exception]],
        *,
        window: float,
        batch: int,
        queue: int,
        name: str,
        observe: Callable[[int, float], None] = lambda size, waited: None,
    ) -> None:
        self.work, self.window, self.batch, self.queue = work, window, batch, queue
        self.observe = observe
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: deque[Waiting[Query, Answer]] = deque()
        self._calls = 0
        self._arrived = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, query: Query) -> Answer:
        """The answer to a query, with others' in one batch.

        Raises:
            Refusal: as many queries as may wait do so already.
        """
        if len(self._waiting) >= self.queue:
            raise busy()
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(query, answer, time.perf_counter()))
        self._arrived.set()
        return await answer

    async def call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Runs something else in the thread, between two batches.

        Raises:
            Refusal: as many calls as queries may wait do so already.
        """
        if self._calls >= self.queue:
            raise busy()
        self._calls += 1
        try:
            return await self._in_thread(function, *arguments)
        finally:
            self._calls -= 1

    async def close(self) -> None:
        """Ends the thread, once what it works on is done."""
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _run(self) -> None:
        last = 1
        while True:
            await self._arrived.wait()
            if len(self._waiting) < min(last, self.batch):
                await asyncio.sleep(self.window)
            batch = self._take()
            if batch:
                last = len(batch)
                await self._answer(batch)

    def _take(self) -> list[Waiting[Query, Answer]]:
        """The next batch, without those who went away."""
        taken: list[Waiting[Query, Answer]] = []
        while self._waiting and len(taken) < self.batch:
            one = self._waiting.popleft()
            if not one.answer.done():
                taken.append(one)
        if not self._waiting:
            self._arrived.clear()
        return taken

    async def _in_thread(
        self, function: Callable[..., Result], *arguments: object
    ) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *arguments)

    async def _answer(self, batch: list[Waiting[Query, Answer]]) -> None:
        self.observe(len(batch), time.perf_counter() - batch[0].since)
        try:
            answers = await self._in_thread(self.work, [one.query for one in batch])
        except Exception as error:
            answers = [error] * len(batch)
        for one, answer in zip(batch, answers, strict=True):
            if one.answer.done():  # whoever asked went away
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)

"""Batches: who waits, who is refused, and that answers reach whoever asked."""

import asyncio
import threading
import time
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="install gradsnap[serve]")

from gradsnap.serve.batching import Batcher
from gradsnap.serve.refusals import Refusal


def batcher(work, **changes) -> Batcher[Any, Any]:
    settings: dict[str, Any] = {"window": 0.005, "batch": 4, "queue": 8, "name": "test"}
    return Batcher(work, **(settings | changes))


def doubled(queries):
    return [2 * query for query in queries]


def test_everyone_gets_their_own_answer_in_batches_of_at_most_four() -> None:
    sizes: list[int] = []

    async def run() -> list[int]:
        made = batcher(doubled, queue=100, observe=lambda size, _: sizes.append(size))
        found = await asyncio.gather(*(made.ask(number) for number in range(30)))
        await made.close()
        return found

    assert asyncio.run(run()) == [2 * number for number in range(30)]
    assert max(sizes) == 4
    assert sum(sizes) == 30
    assert len(sizes) < 12


def test_a_lone_query_does_not_wait_for_others() -> None:
    async def run() -> float:
        made = batcher(doubled, window=5.0)
        started = time.perf_counter()
        for number in range(3):
            await made.ask(number)
        took = time.perf_counter() - started
        await made.close()
        return took

    assert asyncio.run(run()) < 2.0


def test_a_full_queue_refuses_at_once() -> None:
    gate = threading.Event()

    def slow(queries):
        gate.wait(10)
        return doubled(queries)

    async def run() -> tuple[int, list[int]]:
        made = batcher(slow, batch=1)
        first = asyncio.create_task(made.ask(0))
        await asyncio.sleep(0.05)  # the thread holds it now
        others = [asyncio.create_task(made.ask(number)) for number in range(1, 9)]
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal) as refused:
            await made.ask(9)
        gate.set()
        found = await asyncio.gather(first, *others)
        await made.close()
        assert refused.value.headers == {"retry-after": "1"}
        return refused.value.status, found

    status, found = asyncio.run(run())
    assert status == 429
    assert found == [2 * number for number in range(9)]


def test_those_who_went_away_are_not_worked_for() -> None:
    seen: list[int] = []
    gate = threading.Event()

    def work(queries):
        gate.wait(10)
        seen.extend(queries)
        return doubled(queries)

    async def run() -> None:
        made = batcher(work, batch=1)
        first = asyncio.create_task(made.ask(0))
        await asyncio.sleep(0.05)
        gone = asyncio.create_task(made.ask(1))
        stays = asyncio.create_task(made.ask(2))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await first == 0
        assert await stays == 4
        await made.close()

    asyncio.run(run())
    assert seen == [0, 2]


def test_an_error_reaches_only_whom_it_concerns() -> None:
    def work(queries):
        return [ValueError("odd") if query % 2 else query for query in queries]

    async def run() -> list[object]:
        made = batcher(work)
        asked = (made.ask(number) for number in range(4))
        found = await asyncio.gather(*asked, return_exceptions=True)
        await made.close()
        return list(found)

    found = asyncio.run(run())
    assert found[0] == 0
    assert found[2] == 2
    assert isinstance(found[1], ValueError)
    assert isinstance(found[3], ValueError)


def test_work_that_fails_does_not_end_the_queue() -> None:
    calls: list[int] = []

    def work(queries):
        calls.append(len(queries))
        if len(calls) == 1:
            raise RuntimeError("once")
        return doubled(queries)

    async def run() -> int:
        made = batcher(work)
        with pytest.raises(RuntimeError, match="once"):
            await made.ask(1)
        found: int = await made.ask(2)
        await made.close()
        return found

    assert asyncio.run(run()) == 4

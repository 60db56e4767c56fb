"""Times that can be compared: one thread, calls taking turns, best of several."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import faiss
import torch

Call = Callable[[], object]


def use_one_thread() -> None:
    """Ours and the peers each get one thread."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)


def best_interleaved(calls: Mapping[str, Call], repeats: int) -> dict[str, float]:
    """The best time of each call in seconds, after one call to warm up.

    On one thread it is the processor's time, so that what else runs on the machine does
    not count; on several the clock's.

    The calls take turns, in an order that is reversed every round, so that a slow
    spell of the machine and a cache left warm fall on all alike.
    """
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    with _no_garbage_collection():
        for turn in range(repeats):
            order = list(calls) if turn % 2 == 0 else list(calls)[::-1]
            for name in order:
                best[name] = min(best[name], _own_seconds(calls[name]))
    return best


def _own_seconds(call: Call) -> float:
    """Seconds of one call that can be compared with others on as many threads."""
    if torch.get_num_threads() > 1:
        return seconds(call)
    started = time.process_time()
    call()
    return time.process_time() - started


def seconds(call: Call) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

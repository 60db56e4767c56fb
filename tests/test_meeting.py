"""Processes that meet in a store which dead ones have written to."""

import threading
from datetime import timedelta

import pytest
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from gradsnap.errors import GradsnapError
from gradsnap.training.meeting import fresh_store

SOON = timedelta(seconds=20)


def meet(store: Store, ranks: list[int], world: int, late: float = 0.0) -> list[Store]:
    """What each rank gets; the last one comes late."""
    found: dict[int, Store] = {}

    def come(rank: int) -> None:
        found[rank] = fresh_store(store, rank, world, SOON)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in ranks]
    for thread in threads[:-1]:
        thread.start()
    threading.Event().wait(late)
    threads[-1].start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in ranks]


def test_all_get_the_same_part_and_a_new_one_each_time() -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    first = meet(store, [0, 1, 2], 3)
    first[0].set("address", "old")
    assert [one.get("address") for one in first] == [b"old"] * 3
    second = meet(store, [2, 1, 0], 3)
    assert not any(one.check(["address"]) for one in second)
    second[1].set("address", "new")
    assert [one.get("address") for one in second] == [b"new"] * 3


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 2, 0], [0, 2, 1]])
def test_nobody_leaves_with_the_word_of_a_dead_process(order: list[int]) -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    meet(store, [0, 1, 2], 3)[0].set("address", "old")
    again = meet(store, order, 3, late=0.3)  # until then its old word is there
    assert not any(one.check(["address"]) for one in again)
    again[0].set("address", "new")
    assert [one.get("address") for one in again] == [b"new"] * 3


def test_an_attempt_that_died_half_way_is_forgotten() -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    for rank in (0, 1):
        with pytest.raises(GradsnapError, match=rf"process {rank} of 3 waited 0:00:00"):
            fresh_store(store, rank, 3, timedelta(milliseconds=50))
    again = meet(store, [0, 1, 2], 3, late=0.2)
    again[2].set("address", "new")
    assert [one.get("address") for one in again] == [b"new"] * 3

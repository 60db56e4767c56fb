"""Where processes meet: a part of torchrun's store that no earlier attempt wrote to.

When torchrun starts processes again, PyTorch hands them the store of those that died,
and what those wrote is still in it: a process that reads an old address before the new
one is written is refused by a port nobody listens at, and the attempt is lost. The
count of restarts does not tell attempts apart, since a node that joined later counts
from zero. So the processes first agree on a word that is new.
"""

import secrets
import time
from datetime import timedelta

from torch.distributed.distributed_c10d import PrefixStore, Store

from gradsnap.errors import GradsnapError

PAUSE = 0.02
"""Seconds between two looks."""


def fresh_store(store: Store, rank: int, world: int, timeout: timedelta) -> Store:
    """The part of a store that belongs to these processes alone.

    Each says a new word. The first one offers the words of all together, and whoever
    finds its own word in the offer agrees. An offer with the word of a process that
    died never has the agreement of all, and the next one is made when that process'
    successor has said its own.

    Args:
        store: that earlier attempts may have used.
        rank: of this process.
        world: how many there are.
        timeout: how long to wait for the others.

    Raises:
        GradsnapError: not all have come in time.
    """
    word = secrets.token_hex(8)
    store.set(f"gradsnap/word/{rank}", word)
    until = time.monotonic() + timeout.total_seconds()
    while time.monotonic() < until:
        offer = _offered(store, rank, world)
        if word in offer.split(","):
            store.set(f"gradsnap/agreed/{offer}/{rank}", "1")
            if store.check(_agreements(offer, world)):
                return PrefixStore(f"gradsnap/{offer}", store)
        time.sleep(PAUSE)
    raise GradsnapError(
        f"process {rank} of {world} waited {timeout} and did not meet all the others"
    )


def _offered(store: Store, rank: int, world: int) -> str:
    """The newest offer, made anew by the first process; empty before there is one."""
    key = "gradsnap/offer"
    words = [f"gradsnap/word/{number}" for number in range(world)]
    if rank == 0 and store.check(words):
        store.set(key, ",".join(store.get(word).decode() for word in words))
    return str(store.get(key).decode()) if store.check([key]) else ""


def _agreements(offer: str, world: int) -> list[str]:
    return [f"gradsnap/agreed/{offer}/{number}" for number in range(world)]

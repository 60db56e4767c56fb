"""Runs the storm: ``python -m storm [--minutes 20] [--seed N] [--kind NAME]``."""

import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

from storm import ready, shim, workers
from storm.kind import Kind
from storm.kinds import KINDS
from storm.outcomes import Failure, Tally, table

SHOWN = 2
"""Failures of one sort that are printed."""


def main() -> int:
    """Runs the kinds that were asked for; the exit code is 1 if a try failed."""
    asked = _arguments()
    os.environ["STORM_SEED"] = str(asked.seed)  # the same one under the shim
    torch.set_num_threads(1)
    chosen = _possible(asked.kind or list(KINDS))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # workers are ended too
    ready.load_everything()
    print(
        f"storm: seed {asked.seed}, {asked.minutes:g} minutes, {asked.workers} workers"
    )
    ends, began = asked.minutes * 60, time.monotonic()
    tallies = []
    for number, name in enumerate(chosen):
        rest = sum(KINDS[one].weight for one in chosen[number:])
        left = began + ends - time.monotonic()
        tallies.append(_blow(KINDS[name], asked, left * KINDS[name].weight / rest))
    text = table(tallies)
    print(f"\nseed {asked.seed}\n\n{text}")
    if asked.out:
        Path(asked.out).write_text(f"{text}\n", encoding="utf-8")
    return int(any(tally.failures for tally in tallies))


def _possible(names: list[str]) -> list[str]:
    """The kinds that can be tried here; says why others cannot."""
    why = shim.reload_under_shim() if any(KINDS[n].needs_shim for n in names) else None
    if why is None:
        return names
    left_out = [name for name in names if KINDS[name].needs_shim]
    print(f"left out: {', '.join(left_out)} ({why})")
    return [name for name in names if name not in left_out]


def _blow(kind: type[Kind], asked: argparse.Namespace, seconds: float) -> Tally:
    """All tries of one kind in its share of the time."""
    home, began = workers.scratch(), time.monotonic()
    try:
        seeds: Iterator[int] = itertools.count(asked.seed)
        made = kind(home)
        # Making ready may take long on a busy machine: half of the time is for tries.
        deadline = max(began + seconds, time.monotonic() + seconds / 2)
        if asked.tries:
            seeds, deadline = itertools.islice(seeds, asked.tries), float("inf")
        told = _Teller(asked.tries == 1)
        tally = workers.run(
            made, seeds, deadline, workers=asked.workers, told=told.tell
        )
        tally.said = made.said(tally.seeds, tally.steps)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    bad, whole = len(tally.failures), time.monotonic() - began
    times = f"{whole:.0f} s ({tally.worked:.1f} of processors)"
    parts = [f"{tally.tries:,} tries", tally.said, f"{bad} failures", times]
    print(f"{kind.name}: {', '.join(filter(None, parts))}", flush=True)
    return tally


class _Teller:
    """Prints failures as they come, each sort a few times."""

    def __init__(self, whole: bool) -> None:
        self.whole, self.seen = whole, Counter[str]()

    def tell(self, failure: Failure) -> None:
        self.seen[failure.sort] += 1
        if self.whole:
            print(failure.words)
        if self.seen[failure.sort] <= SHOWN:
            print(failure, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="storm", description=__doc__)
    say = os.environ.get
    parser.add_argument(
        "--minutes", type=float, default=float(say("STORM_MINUTES") or 20)
    )
    seed = say("STORM_SEED") or random.SystemRandom().randrange(10**6)
    parser.add_argument("--seed", type=int, default=int(seed))
    parser.add_argument("--kind", action="append", choices=list(KINDS), default=None)
    parser.add_argument("--tries", type=int, default=0, help="of each kind")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", help="also write the table here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

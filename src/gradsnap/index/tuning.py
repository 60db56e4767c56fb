"""How many lists a wanted recall needs, and what they cost."""

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gradsnap.arrays import Given
from gradsnap.errors import InputError

if TYPE_CHECKING:
    from gradsnap.index.lists import ListedIndex


class Trial(NamedTuple):
    """One point of the curve of recall against time."""

    probes: int
    """Lists looked into."""
    recall: float
    """Share of the truth that was found."""
    seconds: float
    """Time a query."""


class Tuning(NamedTuple):
    """What ``tune`` found; as a string, the curve as a small table."""

    probes: int
    """The fewest probes that reached the target, or all lists."""
    curve: list[Trial]
    """Every number of probes tried, ascending."""

    def __str__(self) -> str:
        rows = [
            f"{t.probes:>8} {t.recall:>8.4f} {1e3 * t.seconds:>12.4f}"
            + (" *" if t.probes == self.probes else "")
            for t in self.curve
        ]
        return "\n".join([f"{'probes':>8} {'recall':>8} {'ms a query':>12}", *rows])


def tune(index: "ListedIndex", queries: Given, truth: Any, target: float) -> Tuning:
    """Doubles the probes until the target is reached, then halves the last step."""
    wanted = checked_truth(truth, len(queries))
    if not 0 < target <= 1:
        raise InputError(f"target must lie in (0, 1], got {target}")
    trials: dict[int, Trial] = {}

    def reached(probes: int) -> bool:
        if probes not in trials:
            trials[probes] = _trial(index, queries, wanted, probes)
        return trials[probes].recall >= target

    high = 1
    while not reached(high) and high < index.num_lists:
        high = min(2 * high, index.num_lists)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    index.probes = high
    return Tuning(high, [trials[probes] for probes in sorted(trials)])


def checked_truth(truth: Any, queries: int) -> list[list[Any]]:
    """The ids to be found for each query; padding is left out."""
    rows = truth.tolist() if isinstance(truth, Tensor) else [list(r) for r in truth]
    if len(rows) != queries or queries == 0 or len({len(row) for row in rows}) != 1:
        raise InputError(
            f"{queries} queries need truth of shape ({queries}, k) and at least one "
            f"query, got {len(rows)} rows"
        )
    return rows


def recall(found: Any, truth: list[list[Any]]) -> float:
    """Share of the true ids that are among the found ones, query by query."""
    rows = found.tolist() if isinstance(found, Tensor) else found
    pads = (-1, None)
    hits = total = 0
    for got, wanted in zip(rows, truth, strict=True):
        want = {i for i in wanted if i not in pads}
        hits += len(want.intersection(got))
        total += len(want)
    return hits / total if total else 1.0


def _trial(
    index: "ListedIndex", queries: Given, truth: list[list[Any]], probes: int
) -> Trial:
    index.probes = probes
    k = len(truth[0])
    index.search(queries[:1], k)  # what is made at the first search is not timed
    started = time.perf_counter()
    with torch.no_grad():
        found = index.search(queries, k)
    seconds = (time.perf_counter() - started) / len(queries)
    return Trial(probes, recall(found.ids, truth), seconds)

"""Numbers at the ends of what numbers can be: compared with brute force."""

import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradsnap.coders import CODERS
from gradsnap.errors import GradsnapError
from gradsnap.index import Index, load_index
from storm import good
from storm.kind import Kind
from storm.outcomes import SilentLoss, WrongAnswer

VALUES = (
    float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 3e38, 1e-40, 1e-30, 0.0,
    -0.0, 65504.0, 65520.0, 1e19, 1e18, 5e-324, 2.0**24,
)  # fmt: skip
COUNTS = (0, 1, 2, -1, 25, 10**6, 2**31, 2**63 - 1, 2**63, 2**70, True, 1.5, "3", None)
IDS = (0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 2, 2**63 - 1, 2**64 - 1)
FITTED = ("pq", "opq", "rvq", "itq", "sign", "lsh", "pcah", "spectral")


class Numbers(Kind):
    """Vectors, ids and counts: the answer of brute force, or refused."""

    name = "numbers"
    weight = 34.0

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        good.learn_all()

    def attempt(self, numbers: random.Random, place: Path) -> str:
        try:
            if numbers.randrange(4) == 0:
                self._coder(numbers)
            else:
                self._index(numbers, place)
        except GradsnapError:
            return "refused"
        return "answered"

    def _coder(self, numbers: random.Random) -> None:
        """A coder fitted to such rows: its codes are within its codebooks."""
        x = strange_rows(numbers, numbers.choice((0, 1, 3, 40)))
        kind = numbers.choice([kind for kind in FITTED if kind in CODERS])
        labels = torch.arange(len(x)) % 2
        coder = CODERS[kind].of_bits(good.DIM, good.DIM).fit(x, labels)
        codes = coder.encode(strange_rows(numbers, 4))
        if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < 2**16:
            raise WrongAnswer(f"{kind} gave codes {codes.tolist()}")
        for name, value in coder.state_dict().items():
            if name not in coder.unbounded and not bool(value.isfinite().all()):
                raise WrongAnswer(f"{kind} learned {name} that is not finite")

    def _index(self, numbers: random.Random, place: Path) -> None:
        index = good.fresh(numbers.choice(list(good.VARIANTS)))
        if not index.takes_vectors:
            x = good.vectors_for(index, 12, numbers.randrange(99))
            query = x[:3]
        else:
            x = strange_rows(numbers, numbers.choice((0, 1, 12, 40)))
            query = strange_rows(numbers, numbers.choice((0, 1, 3)))
        ids = strange_ids(numbers, len(x))
        index.add(x, ids)
        if numbers.randrange(4) == 0:
            _check_kept(index, place / "i", numbers)
        k: Any = numbers.choice((*COUNTS, 3, 5))
        if isinstance(k, int) and k > 10**6:
            return  # a table of so many results is an honest wish
        found = index.search(query, k)
        _compare(index, query, found, k)


def _check_kept(index: Index, folder: Path, numbers: random.Random) -> None:
    """What was saved, perhaps with a row more, can be opened again."""
    if numbers.randrange(2):
        index.add(good.vectors_for(index, 1, 1))
    index.save(folder)
    try:
        again = load_index(folder, verify=True)
    except GradsnapError as error:
        raise SilentLoss(f"saved, and cannot be opened: {error}") from error
    if list(again.select()) != list(index.select()):
        raise SilentLoss(f"{len(index)} items saved, {len(again)} found, or others")


def strange_rows(numbers: random.Random, count: int) -> Tensor:
    """Rows (count, dim), some of them of extreme numbers."""
    x = good.rows(count, numbers.randrange(999))
    way = numbers.randrange(6)
    if way == 0:
        x[:] = numbers.choice(VALUES)
    elif way == 1 and count:
        x[numbers.randrange(count), numbers.randrange(good.DIM)] = numbers.choice(
            VALUES
        )
    elif way == 2:
        x *= numbers.choice(VALUES)
    elif way == 3 and count:
        x[:] = x[:1]
    return x.to(numbers.choice((torch.float32, torch.float32, torch.float64)))


def strange_ids(numbers: random.Random, count: int) -> Any:
    """None, numbers near the ends, or texts."""
    way = numbers.randrange(4)
    if way == 0:
        return [numbers.choice(IDS) + number for number in range(count)]
    if way == 1:
        return torch.tensor([2**63 - 2 - number for number in range(count)])
    if way == 2:
        strange = ("", "\0", "\ud800", "\udc80", "a/../b", "//", "x" * 10**4)
        return [f"{numbers.choice(strange)}{number}" for number in range(count)]
    return None


def _compare(index: Index, query: Tensor, found: Any, k: int) -> None:
    """The distances found are the smallest there are, by the coder's own sums."""
    distances = found.distances
    if distances.shape != (len(query), k):
        raise WrongAnswer(f"k of {k} gave {tuple(distances.shape)}")
    if bool(distances.isnan().any()):
        raise WrongAnswer("a distance is NaN")
    if bool((distances.diff(dim=1) < 0).any()):
        raise WrongAnswer(f"distances do not ascend: {distances.tolist()}")
    if index.num_lists is not None or not index.takes_vectors or index.refiner:
        return
    codes, _ = index.items.codes_of(index.select())
    every = index.coder.distances(query.to(index.coder.dtype), codes).double()
    best = every.sort(dim=1).values[:, :k]
    got = distances[:, : best.shape[1]].double()
    slack = 1e-3 + 1e-3 * best.abs()
    if bool(((got - best).abs() > slack).any()):
        raise WrongAnswer(f"found {got.tolist()}, brute force {best.tolist()}")

"""What an index should be: a dict of items, and distances by brute force."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gradsnap.index import Index
from storm.outcomes import SilentLoss, WrongAnswer


@dataclass
class Item:
    """What is known of an item: its code, its list, and its label."""

    code: Tensor
    """As it was stored, (M,). Kept, not made again: where two codewords are as near as
    rounding tells, the same row in a larger batch may get the other."""
    list: Tensor
    """The number of its list, (); 0 in an index without lists."""
    label: int


@dataclass
class Model:
    """The items of an index by their ids."""

    items: dict[Any, Item] = field(default_factory=dict)

    def copy(self) -> "Model":
        """The same items; what becomes of one does not touch the other."""
        return Model({i: replace(one) for i, one in self.items.items()})

    def ids(self, label: int | None = None) -> set[Any]:
        """All ids, or those of a label."""
        return {i for i, one in self.items.items() if label in (None, one.label)}


def coded(index: Index, vectors: Tensor, label: int) -> list[Item]:
    """Vectors (n, dim) as the items that an index makes of them, in this one batch."""
    codes, lists = index._encode(index._checked(vectors))
    lists = codes.new_zeros(len(codes)) if lists is None else lists
    return [Item(code, one, label) for code, one in zip(codes, lists, strict=True)]


def distances(index: Index, queries: Tensor, items: list[Item]) -> Tensor:
    """Distances (q, n) to what codes say of items, by definition."""
    coder: Any = index.coder
    codes = torch.stack([one.code for one in items])
    if not index.takes_vectors:
        differ = (queries[:, None] ^ codes[None]).int()
        bits = (differ[..., None] >> torch.arange(8)) & 1  # (q, n, bytes, 8)
        flat = bits.flatten(2)[..., : coder.bits].double()
        summed: Tensor = flat @ coder.bit_weights.double()
        return summed
    if not getattr(index, "residual", False):
        whole: Tensor = coder.distances(queries, codes).double()
        return whole
    own: Any = index
    lists = torch.stack([one.list for one in items])
    kept = own._whole(coder.decode(codes), lists).double()
    return torch.cdist(queries.double(), kept).square()


def check(index: Index, model: Model, queries: Tensor, where: int | None) -> None:
    """Compares an index with its model: what is there, what is near, what is known.

    Raises:
        SilentLoss: an item is missing.
        WrongAnswer: an item is there that should not be, or an answer is another.
    """
    have, want = set(_plain(index.select())), model.ids()
    if want - have:
        raise SilentLoss(f"{index.kind}: {sorted(want - have)[:5]} are gone")
    if have - want or len(index) != len(want):
        raise WrongAnswer(f"{index.kind}: {sorted(have - want)[:5]} are too many")
    if not want:
        return
    allowed = sorted(model.ids(where))
    condition = None if where is None else f"label = {where}"
    _check_search(index, model, queries, allowed, condition)
    one: Any = [allowed[0]] if allowed else [min(want)]
    known = index.metadata(one)[0].get("label")
    if known != model.items[one[0]].label:
        raise WrongAnswer(f"the label of {one[0]!r} is said to be {known}")


def _check_search(
    index: Index, model: Model, queries: Tensor, allowed: list[Any], where: str | None
) -> None:
    k = 4
    rerank = 0 if index.refiner is not None else None
    found = index.search(queries, k, rerank=rerank, where=where)
    if not allowed:
        if bool(found.distances.isfinite().any()):
            raise WrongAnswer("something was found where nothing may be")
        return
    every = distances(index, queries, [model.items[i] for i in allowed])  # (q, n)
    best = every.sort(dim=1).values[:, :k]
    got = found.distances[:, : best.shape[1]].double()
    slack = 1e-3 * (1 + best.abs())
    if bool(((got - best).abs() > slack).any()):
        raise WrongAnswer(f"{index.kind}: {got.tolist()}, brute force {best.tolist()}")
    for row, ids in enumerate(_plain(found.ids)):
        _check_ids(ids[: best.shape[1]], got[row], every[row], allowed)


def _check_ids(ids: Any, got: Tensor, every: Tensor, allowed: list[Any]) -> None:
    """Each id found has the distance it was found at."""
    place = {one: number for number, one in enumerate(allowed)}
    for one, distance in zip(ids, got.tolist(), strict=True):
        if one not in place:
            raise WrongAnswer(f"{one!r} was found and may not be")
        own = float(every[place[one]])
        if abs(own - distance) > 1e-3 * (1 + abs(own)):
            raise WrongAnswer(f"{one!r} lies at {own}, found at {distance}")


def _plain(ids: Any) -> Any:
    return ids.tolist() if hasattr(ids, "tolist") else ids

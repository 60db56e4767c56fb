"""What a code says: its numbers, and each codeword's share of a distance."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradsnap.index import Index
from gradsnap.index.lists import ListedIndex
from gradsnap.index.queries import Queries


@dataclass(frozen=True)
class Explanation:
    """An item's code, and how its distance to a query adds up."""

    code: list[int]
    """One codeword of each codebook."""
    parts: list[float]
    """What each codeword adds to the distance; empty where lists have own coders."""
    rest: float
    """What belongs to no codeword: constants of the query, cross terms of the code."""
    place: int | None
    """The list the item is in; None without lists."""

    def as_json(self) -> dict[str, Any]:
        """For the response."""
        return {
            "code": self.code,
            "parts": self.parts,
            "rest": self.rest,
            "list": self.place,
        }


@torch.no_grad()
def explain(index: Index, item: Any, query: Tensor | None, other: Any) -> Explanation:
    """The code of an item, and its distance to a query in parts.

    Args:
        index: that holds the item.
        item: its id.
        query: a vector (dim,), or None.
        other: the id of an item that is the query, or None; with neither there are no
            parts.
    """
    codes, lists = index.items.codes_of(_ids(item))
    listed = index.num_lists is not None
    asked = _queries(index, query, other)
    if asked is None or (listed and not isinstance(index, ListedIndex)):
        return Explanation(codes[0].tolist(), [], 0.0, _place(index, lists))
    rows = asked.rows
    if isinstance(index, ListedIndex) and index.residual:
        rows = index._left(rows, lists)
    coder = index.coder
    tables = coder.code_tables(rows) if asked.coded else coder.tables(rows)
    own = tables.entries[0].gather(1, codes[0][:, None])[:, 0]  # (M,)
    rest = tables.offsets[0] + coder.cross_terms(codes)[0]
    parts = [float(part) for part in own]
    return Explanation(codes[0].tolist(), parts, float(rest), _place(index, lists))


def _queries(index: Index, query: Tensor | None, other: Any) -> Queries | None:
    if query is not None:
        return index._queries(query[None])
    return None if other is None else index._item_queries([other])


def _place(index: Index, lists: Tensor) -> int | None:
    return None if index.num_lists is None else int(lists[0])


def _ids(item: Any) -> Any:
    from gradsnap.index.segments import checked_ids

    return checked_ids([item])

"""Who searches in place of this process: Lance's index, or an actor a shard."""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from gradsnap.scale.sharded import Shards
    from gradsnap.scale.table import CodeTable


class Nearest(NamedTuple):
    """What was found elsewhere."""

    rows: list[list[tuple[Any, float]]]
    """Ids and distances of each query, nearest first."""
    missing: dict[str, str]
    """Shards that did not answer, and why."""


class Elsewhere(Protocol):
    """Searches what this process holds too, faster or on other machines."""

    filters: bool
    """Whether it takes conditions on metadata."""
    num_lists: int | None
    """Lists that a query may look into; None without lists."""

    def nearest(
        self, queries: Tensor, k: int, probe: int | None, where: str | None
    ) -> Nearest:
        """The k nearest items of queries (q, dim)."""


class LanceSearch:
    """The index in a table, which ``gradsnap index`` made.

    Args:
        table: one version of it.
    """

    filters = False

    def __init__(self, table: "CodeTable") -> None:
        from gradsnap.scale.lance_index import stored_lists

        self.table = table
        known = stored_lists(table)
        self.num_lists = None if known is None else len(known.centroids)

    def nearest(
        self, queries: Tensor, k: int, probe: int | None, where: str | None
    ) -> Nearest:
        """The k nearest items of queries (q, dim)."""
        from gradsnap.scale.table_search import search_by_index

        return Nearest(search_by_index(self.table, queries, k, probe), {})


class ShardSearch:
    """Shards that are actors of a Ray cluster.

    Args:
        shards: all of them.
        num_lists: of each; None without lists.
        partial: seconds to wait for those that do not answer; None waits for all.
    """

    filters = True

    def __init__(
        self, shards: "Shards", num_lists: int | None, partial: float | None
    ) -> None:
        self.shards, self.num_lists, self.partial = shards, num_lists, partial

    def nearest(
        self, queries: Tensor, k: int, probe: int | None, where: str | None
    ) -> Nearest:
        """The k nearest items of queries (q, dim)."""
        from gradsnap.scale.sharded import Ask

        ask = Ask(queries.numpy(), k, where, probe)
        answer = self.shards.search(ask, self.partial)
        return Nearest(answer.results, answer.missing)

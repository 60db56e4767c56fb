"""Rows of a Lance table, images or vectors; a fragment is a shard."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsnap.data.shards.reader import Listed, Shard, Wanted
from gradsnap.data.shards.table_rows import items_of, keys_of, labels_of, told_columns
from gradsnap.data.table_columns import Columns, columns_of
from gradsnap.extras import require_lance
from gradsnap.reading import reading
from gradsnap.remembered import Remembered

TABLE = ".lance"


class LanceShards:
    """The rows of one version of a Lance table, which is read in any order.

    Args:
        address: of the table.
        version: of it; the newest if not given.
    """

    reads_whole = False
    forks = False  # threads of Lance do not survive it

    def __init__(self, address: str, version: int | None = None) -> None:
        self._tables = Remembered(opened_table)
        opened = self._tables(address, version)
        self.address, self.version = address, opened.version
        self.is_local = "://" not in address
        self.columns: Columns = columns_of(opened.schema, address)

    @property
    def holds_images(self) -> bool:
        """Whether items are images."""
        return self.columns.images

    def shards(self) -> Sequence[Shard]:
        """One shard a fragment that has rows: its number, and its first row."""
        found, first = [], 0
        for one in self._opened().get_fragments():
            rows = one.count_rows()
            shard = Shard(f"fragment {one.fragment_id}", (one.fragment_id, first))
            found += [shard] if rows else []
            first += rows
        return found

    def listed(self, shard: Shard) -> Listed:
        """Ids and labels, without the items."""
        columns = told_columns(self.columns.id, self._opened().schema.names)
        with reading(self.address, "a Lance table"):
            fragment = self._opened().get_fragment(shard.part[0])
            rows = fragment.count_rows()
            table = fragment.to_table(columns=columns) if columns else None
        keys = keys_of(table, self.columns.id, rows)
        labels: Sequence[str | None] = [None] * rows
        if table is not None:
            labels = labels_of(table, rows, self.address)
        return Listed(keys, labels, np.empty((rows, 0), dtype=np.int64))

    def content(self, shard: Shard) -> None:
        """Listing takes no time."""

    def read(self, shard: Shard, wanted: Sequence[Wanted]) -> Any:
        """The items of rows."""
        rows = [shard.part[1] + one.row for one in wanted]
        with reading(self.address, "a Lance table"):
            table = self._opened().take(rows, columns=[self.columns.item])
        return items_of(table, self.columns, self.address)

    def name(self, shard: Shard, key: str, row: int) -> str:
        """The id where there is one, else fragment and row."""
        return key or f"{shard.part[0]}:{row}"

    def _opened(self) -> Any:
        return self._tables(self.address, self.version)


def opened_table(address: str, version: int | None) -> Any:
    """An open table."""
    lance = require_lance()
    with reading(address, "a Lance table"):
        return lance.dataset(address, version=version)

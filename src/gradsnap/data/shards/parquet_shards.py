"""Rows of Parquet files, images or vectors; a row group is a shard."""

import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.data.shards.reader import Listed, Shard, Wanted
from gradsnap.data.shards.table_rows import items_of, keys_of, labels_of, told_columns
from gradsnap.data.table_columns import Columns, columns_of
from gradsnap.errors import FileFormatError
from gradsnap.places import place_of
from gradsnap.reading import reading
from gradsnap.remembered import Remembered

KEPT_GROUPS = 16
"""Row groups whose items are kept in memory: batches come from so many at once."""


class ParquetShards:
    """The rows of Parquet files, in the sorted order of their names.

    A row group is decoded as a whole, so that its items are drawn one after the other.

    Args:
        address: of the source.
        paths: of the files on its file system.
    """

    reads_whole = True

    def __init__(self, address: str, paths: Sequence[str]) -> None:
        self.address, self.paths = address, tuple(paths)
        self.is_local = self.forks = place_of(address).is_local
        self._files = Remembered(opened_file)
        self._groups = Remembered(self._items, KEPT_GROUPS)
        schema = self._files(address, paths[0]).schema_arrow
        self.columns: Columns = columns_of(schema, address)

    @property
    def holds_images(self) -> bool:
        """Whether items are images."""
        return self.columns.images

    def shards(self) -> Sequence[Shard]:
        """One shard a row group that has rows: path, number, first row."""
        found = []
        for path in self.paths:
            metadata, first = self._files(self.address, path).metadata, 0
            for group in range(metadata.num_row_groups):
                name = f"{posixpath.basename(path)}:{group}"
                rows = metadata.row_group(group).num_rows
                found += [Shard(name, (path, group, first))] if rows else []
                first += rows
        return found

    def listed(self, shard: Shard) -> Listed:
        """Ids and labels, without the items."""
        path, group, _ = shard.part
        file = self._files(self.address, path)
        with reading(path, "Parquet"):
            columns = told_columns(self.columns.id, file.schema_arrow.names)
            table = file.read_row_group(group, columns=columns)
            rows = file.metadata.row_group(group).num_rows
        keys = keys_of(table, self.columns.id, rows)
        labels = labels_of(table, rows, path)
        return Listed(keys, labels, np.empty((rows, 0), dtype=np.int64))

    def content(self, shard: Shard) -> None:
        """Listing takes no time."""

    def read(self, shard: Shard, wanted: Sequence[Wanted]) -> Any:
        """The items of rows, from a group that is kept for the next."""
        path, group, _ = shard.part
        items: list[bytes] | NDArray[np.float32] = self._groups(path, group)
        rows = [one.row for one in wanted]
        if max(rows) >= len(items):
            raise FileFormatError(f"{path} changed while it was read")
        return [items[row] for row in rows] if isinstance(items, list) else items[rows]

    def name(self, shard: Shard, key: str, row: int) -> str:
        """The id where there is one, else file and row."""
        path, _, first = shard.part
        return key or f"{posixpath.basename(path)}:{first + row}"

    def _items(self, path: str, group: int) -> Any:
        with reading(path, "Parquet"):
            file = self._files(self.address, path)
            table = file.read_row_group(group, columns=[self.columns.item])
        return items_of(table, self.columns, path)


def opened_file(address: str, path: str) -> Any:
    """An open Parquet file."""
    from pyarrow import parquet

    with reading(path, "Parquet"):
        return parquet.ParquetFile(place_of(address).filesystem.open_input_file(path))

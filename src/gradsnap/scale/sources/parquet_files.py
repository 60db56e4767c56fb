"""Parquet files of images or vectors, by row groups."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from gradsnap.data.table_columns import Columns, columns_of
from gradsnap.errors import FileFormatError
from gradsnap.places import place_of
from gradsnap.remembered import Remembered
from gradsnap.scale.shard import CHUNK_ROWS, SHARD_ROWS, Chunk, Shard, shard_of
from gradsnap.scale.table_chunks import chunk_of


class ParquetFiles:
    """The rows of Parquet files, in the sorted order of their names.

    Args:
        address: of the file, or of the folder they lie in.
        paths: of the files on its file system.
        rows: of a shard, rounded up to whole row groups.
    """

    def __init__(
        self, address: str, paths: Sequence[str], rows: int = SHARD_ROWS
    ) -> None:
        self.address, self.paths, self.rows = address, tuple(paths), rows
        self._files = Remembered(opened_file)
        self.columns: Columns = columns_of(
            self._files(address, paths[0]).schema_arrow, address
        )

    @property
    def holds_images(self) -> bool:
        """Whether items are images."""
        return self.columns.images

    def schema(self) -> Any:
        """Types of ``id`` and of the metadata, by the first file."""
        return self.columns.schema(
            self._files(self.address, self.paths[0]).schema_arrow
        )

    def shards(self) -> Sequence[Shard]:
        """Row groups of one file, so many rows together."""
        return [shard for path in self.paths for shard in self._shards_of(path)]

    def _shards_of(self, path: str) -> Iterator[Shard]:
        metadata = self._files(self.address, path).metadata
        groups: list[int] = []
        rows = first = 0
        for number in range(metadata.num_row_groups):
            groups.append(number)
            rows += metadata.row_group(number).num_rows
            if rows >= self.rows or number == metadata.num_row_groups - 1:
                size = str(metadata.serialized_size)
                part = [path, groups, first]
                yield shard_of(self.address, part, rows, size)
                groups, first, rows = [], first + rows, 0

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The rows of a shard."""
        path, groups, row = shard.part
        name = posixpath.basename(path)
        for batch in self._files(self.address, path).iter_batches(
            CHUNK_ROWS, row_groups=groups, columns=self.columns.read
        ):
            yield chunk_of(self.columns, batch, name, row)
            row += len(batch)


def opened_file(address: str, path: str) -> Any:
    """An open Parquet file."""
    import pyarrow
    from pyarrow import parquet

    file = place_of(address).filesystem.open_input_file(path)
    try:
        return parquet.ParquetFile(file)
    except pyarrow.ArrowInvalid as error:
        raise FileFormatError(f"{path} is truncated or not Parquet: {error}") from error

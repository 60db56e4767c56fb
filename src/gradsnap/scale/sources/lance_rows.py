"""Rows of a Lance table of images or vectors, by fragments."""

from collections.abc import Iterator, Sequence
from typing import Any

from gradsnap.data.table_columns import Columns, columns_of
from gradsnap.extras import require_lance
from gradsnap.scale.shard import CHUNK_ROWS, Chunk, Shard, shard_of
from gradsnap.scale.table_chunks import chunk_of


class LanceRows:
    """The rows of one version of a Lance table; a fragment is a shard.

    Args:
        address: of the table.
        version: of it; the newest if not given.
    """

    def __init__(self, address: str, version: int | None = None) -> None:
        opened = require_lance().dataset(address, version=version)
        self.address, self.version = address, opened.version
        self.columns: Columns = columns_of(opened.schema, address)

    @property
    def holds_images(self) -> bool:
        """Whether items are images."""
        return self.columns.images

    def schema(self) -> Any:
        """Types of ``id`` and of the metadata."""
        return self.columns.schema(self._opened().schema)

    def shards(self) -> Sequence[Shard]:
        """One shard a fragment, known by its files."""
        found = []
        for one in self._opened().get_fragments():
            files = ",".join(file.path for file in one.data_files())
            content = f"{files} {one.metadata.deletion_file}"
            part = one.fragment_id
            found.append(shard_of(self.address, part, one.count_rows(), content))
        return found

    def read(self, shard: Shard) -> Iterator[Chunk]:
        """The rows of a fragment that were not deleted."""
        fragment = self._opened().get_fragment(shard.part)
        row = 0
        for batch in fragment.to_batches(
            columns=self.columns.read, batch_size=CHUNK_ROWS
        ):
            yield chunk_of(self.columns, batch, str(shard.part), row)
            row += len(batch)

    def _opened(self) -> Any:
        return require_lance().dataset(self.address, version=self.version)

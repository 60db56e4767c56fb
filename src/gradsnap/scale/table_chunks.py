"""Rows of a record batch as a chunk: ids, items and metadata."""

from typing import Any

from gradsnap.data.table_columns import Columns, image_bytes, vector_rows
from gradsnap.scale.shard import Chunk


def chunk_of(columns: Columns, batch: Any, name: str, first: int) -> Chunk:
    """The rows of a record batch, the first of which is row ``first`` of its file."""
    import pyarrow as arrow

    if columns.id is None:
        ids: Any = [f"{name}:{first + row}" for row in range(len(batch))]
    else:
        ids = batch.column(columns.id).to_pylist()
    values = batch.column(columns.item)
    items: Any = image_bytes(values) if columns.images else vector_rows(values, name)
    table = arrow.Table.from_batches([batch]).select(list(columns.metadata))
    return Chunk(ids, items, table if columns.metadata else None)

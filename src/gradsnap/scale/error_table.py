"""Items that could not be encoded, with their reasons: a small Lance table beside."""

from collections.abc import Iterable, Sequence
from typing import Any

from gradsnap.extras import require_lance
from gradsnap.scale.decoding import BadItem
from gradsnap.scale.table import SHARD, table_exists

ENDING = ".errors.lance"


def errors_address(table: str) -> str:
    """Where the errors of a table are.

    Example:
        >>> errors_address("photos.lance")
        'photos.errors.lance'
    """
    return table.rstrip("/").removesuffix(".lance") + ENDING


def append_errors(table: str, bad: Sequence[tuple[int, BadItem]]) -> None:
    """Adds bad items, each with the key of its shard, in one commit."""
    if not bad:
        return
    import pyarrow as arrow

    columns = {
        SHARD: arrow.array([shard for shard, _ in bad], arrow.int64()),
        "id": arrow.array([one.id for _, one in bad], arrow.string()),
        "reason": arrow.array([one.reason for _, one in bad], arrow.string()),
    }
    address = errors_address(table)
    mode = "append" if table_exists(address) else "create"
    require_lance().write_dataset(arrow.table(columns), address, mode=mode)


def forget_errors(table: str, shards: Iterable[int]) -> None:
    """Removes the errors of shards that are about to be read again."""
    address = errors_address(table)
    words = ", ".join(map(str, shards))
    if words and table_exists(address):
        opened = require_lance().dataset(address)
        condition = f"{SHARD} IN ({words})"
        if opened.count_rows(condition):
            opened.delete(condition)


def read_errors(table: str) -> list[dict[str, Any]]:
    """Rows of ``shard``, ``id`` and ``reason``, by id."""
    address = errors_address(table)
    if not table_exists(address):
        return []
    rows: list[dict[str, Any]] = require_lance().dataset(address).to_table().to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))

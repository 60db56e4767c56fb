"""Keys, labels and items of some rows of a table, whoever wrote it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.data.table_columns import Columns, image_bytes, vector_rows
from gradsnap.errors import InputError

LABEL_COLUMNS = ("label", "labels", "class", "cls")


def label_column(names: Sequence[str]) -> str | None:
    """The column of classes; None where there is none."""
    return next((one for one in LABEL_COLUMNS if one in names), None)


def told_columns(key: str | None, names: Sequence[str]) -> list[str]:
    """The columns that are listed: ids and classes, where there are any."""
    wanted = (key, label_column(names))
    return list(dict.fromkeys(one for one in wanted if one is not None))


def keys_of(table: Any, column: str | None, rows: int) -> list[str]:
    """The ids of rows as text, empty where they have none."""
    if column is None:
        return [""] * rows
    return ["" if one is None else str(one) for one in table.column(column).to_pylist()]


def labels_of(table: Any, rows: int, path: str) -> list[str | None]:
    """The class of each row as text.

    Raises:
        InputError: a row has several.
    """
    column = label_column(table.column_names)
    if column is None:
        return [None] * rows
    values = table.column(column).to_pylist()
    if any(isinstance(one, list | dict) for one in values):
        raise InputError(
            f"{path}: rows of {column} hold several labels; read in shards, an item "
            "has one class"
        )
    return [None if one is None else str(one) for one in values]


def items_of(
    table: Any, columns: Columns, path: str
) -> list[bytes] | NDArray[np.float32]:
    """Encoded images, or vectors (rows, dim)."""
    values = table.column(columns.item).combine_chunks()
    return image_bytes(values) if columns.images else vector_rows(values, path)

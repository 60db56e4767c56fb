"""A sample of a table's rows, by a seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsnap.scale.table import EMBEDDING, CodeTable

SEED = 0


def sampled_embeddings(table: CodeTable, most: int) -> NDArray[Any]:
    """Embeddings float32 (m, dim) of some rows, as the codebooks see them."""
    column = sampled_rows(table, EMBEDDING, most)[EMBEDDING]
    return matrix_of(column.combine_chunks())


def sampled_rows(table: CodeTable, column: str, most: int) -> Any:
    """A pyarrow table of one column of at most so many rows.

    Drawn with repeats, which are dropped: no list of all rows is ever held.
    """
    count = len(table)
    if count <= most:
        places = np.arange(count)
    else:
        places = np.unique(np.random.default_rng(SEED).integers(0, count, most))
    return table.dataset.take(places, columns=[column])


def matrix_of(column: Any) -> NDArray[Any]:
    """A column of lists of one length as float32 (n, length)."""
    width = column.type.list_size
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=np.float32).reshape(-1, width)

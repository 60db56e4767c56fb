"""What an index can be filtered by: values with their counts, ranges of numbers."""

from typing import Any

import numpy as np

from gradsnap.index import Index
from gradsnap.index.metadata import join_tables
from gradsnap.serve.plain import plain

MOST_VALUES = 200
"""Different values of a column that is offered as a choice."""

BINS = 24


def facets(index: Index) -> list[dict[str, Any]]:
    """A facet for each column of metadata; columns of free text have none."""
    table = _table(index)
    if table is None:
        return []
    made = (_facet(name, table[name]) for name in table.column_names)
    return [facet for facet in made if facet is not None]


def _table(index: Index) -> Any:
    """The metadata of all items that count."""
    live, lengths = [], []
    for segment in index.items.segments:
        at = segment.counted()
        live.append(None if segment.stored is None else segment.table.take(at))
        lengths.append(len(at))
    return join_tables(live, lengths) if live else None


def _facet(name: str, column: Any) -> dict[str, Any] | None:
    from pyarrow import types

    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind):
        return _range(name, column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind):
        return _values(name, column)
    if types.is_dictionary(kind):
        return _values(name, column.cast(kind.value_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return _values(name, column.combine_chunks().flatten(), listed=True)
    return None


def _values(name: str, column: Any, listed: bool = False) -> dict[str, Any] | None:
    """Values and their counts, the most frequent first."""
    from pyarrow import compute, types

    if types.is_nested(column.type):
        return None
    known = column.drop_null()
    counted = compute.value_counts(known)
    if not 0 < len(counted) <= MOST_VALUES or 2 * len(counted) > len(known) + 1:
        return None  # names and checksums, which tell single items apart
    pairs = [(plain(one["values"]), one["counts"]) for one in counted.to_pylist()]
    pairs.sort(key=lambda pair: (-pair[1], str(pair[0])))
    values = [{"value": value, "count": count} for value, count in pairs]
    kind = "list" if listed else "values"
    return {"column": name, "kind": kind, "values": values}


def _range(name: str, column: Any) -> dict[str, Any] | None:
    """The least and the greatest number, and a histogram between them."""
    numbers = column.drop_null().to_numpy().astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) == 0:
        return None
    low, high = float(numbers.min()), float(numbers.max())
    counts, _ = np.histogram(
        numbers, bins=BINS, range=(low, high if high > low else low + 1)
    )
    from pyarrow import types

    return {
        "column": name,
        "kind": "range",
        "low": low,
        "high": high,
        "whole": bool(types.is_integer(column.type)),
        "counts": counts.tolist(),
    }

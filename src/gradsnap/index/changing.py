"""Items that stay where they are under other names, or with other metadata."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradsnap.errors import InputError
from gradsnap.index.item_store import ItemStore
from gradsnap.index.metadata import Metadata, checked_metadata
from gradsnap.index.segments import GivenIds, Segment, checked_ids, new_ids
from gradsnap.strings import PackedStrings


def rename_items(items: ItemStore, renames: Mapping[str, str]) -> None:
    """Gives items other string ids; their codes and their order stay.

    Raises:
        InputError: an id is not in the index, or a new one is taken; nothing is renamed
            then.
    """
    old, new = list(renames), new_ids(list(renames.values()), len(renames))
    found = items.find(old)
    taken = [new[place] for place in items.known(new) if new[place] not in renames]
    if taken:
        raise InputError(f"the id {taken[0]!r} is in the index already")
    for segment, (at, rows) in zip(items.segments, found, strict=True):
        if len(at) and segment.names is not None:
            names = list(segment.names)
            for place, row in zip(at.tolist(), rows.tolist(), strict=True):
                names[place] = str(new[row])
            segment.names = PackedStrings.of(names)
            segment.restated = True


def update_items(items: ItemStore, ids: GivenIds, metadata: Metadata) -> None:
    """Replaces columns of items; others, and those of other items, stay.

    Args:
        items: of an index.
        ids: n of them.
        metadata: columns of n values by name, or a pyarrow table.

    Raises:
        InputError: an id is not in the index, or a column holds another kind of values.
    """
    checked = new_ids(ids, len(checked_ids(ids)))
    table = checked_metadata(metadata, len(checked))
    for segment, (at, rows) in zip(items.segments, items.find(checked), strict=True):
        if len(at):
            segment.stored = _with_rows(segment, at.tolist(), table.take(rows))
            segment.restated = True


def _with_rows(segment: Segment, places: Sequence[int], rows: Any) -> Any:
    """The segment's table with other values in some of its rows."""
    import pyarrow

    own = segment.table
    columns = {} if own is None else {name: own[name] for name in own.column_names}
    for name in rows.column_names:
        old = columns.get(name)
        values = [None] * len(segment) if old is None else old.to_pylist()
        for place, value in zip(places, rows[name].to_pylist(), strict=True):
            values[place] = value
        kinds = [rows[name].type] if old is None else [old.type, rows[name].type]
        columns[name] = _column(values, kinds, name)
    return pyarrow.table(columns)


def _column(values: Sequence[Any], kinds: Sequence[Any], name: str) -> Any:
    """The values as a column of the one kind they are, or of one that holds both."""
    import pyarrow

    known = {kind for kind in kinds if not pyarrow.types.is_null(kind)}
    try:
        return pyarrow.array(values, known.pop() if len(known) == 1 else None)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        raise InputError(
            f"the column {name} holds {kinds[0]}, and the new values are {kinds[-1]}"
        ) from error

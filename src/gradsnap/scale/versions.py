"""Versions of a table: rows removed, small files joined, old versions dropped."""

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

from gradsnap.errors import InputError
from gradsnap.scale.table import CodeTable, among
from gradsnap.scale.table_search import code_indexes

AT_ONCE = 1000
"""Ids of one condition."""


class Compacted(NamedTuple):
    """What came of joining files."""

    fragments_before: int
    fragments: int
    versions_dropped: int
    bytes_freed: int


def fitting_ids(table: CodeTable, words: Sequence[str], where: str | None) -> list[Any]:
    """Ids of rows by words and a condition, in the order of the table.

    Args:
        table: to look into.
        words: ids; all rows if there are none and there is a condition.
        where: a condition on metadata, as for an index.

    Raises:
        InputError: neither is given, or a word is no id of the table.
    """
    if not words and where is None:
        raise InputError("name ids, or give --where")
    wanted: list[Any] = list(words) if table.named else [_number(one) for one in words]
    known: set[Any] = set()
    for start in range(0, len(wanted), AT_ONCE):
        known |= table.known(wanted[start : start + AT_ONCE])
    for one in wanted:
        if one not in known:
            raise InputError(f"{table.address} has no row {one!r}")
    if where is None:
        return wanted
    found = [
        one
        for part in code_indexes(table, with_metadata=True)
        for one in list(part.select(where))
    ]
    plain = [one if isinstance(one, str) else int(one) for one in found]
    return [one for one in plain if one in known] if words else plain


def remove_rows(table: CodeTable, ids: Sequence[Any]) -> None:
    """Removes rows by their ids; earlier versions still have them."""
    for start in range(0, len(ids), AT_ONCE):
        table.dataset.delete(among(ids[start : start + AT_ONCE]))


def compact_table(table: CodeTable, keep_days: float | None = None) -> Compacted:
    """Joins small files and drops removed rows; indexes stay.

    Args:
        table: its newest version.
        keep_days: versions older than that cannot be searched any more, and their
            files are removed, as are those a killed job left; None keeps all.
    """
    before = len(table.dataset.get_fragments())
    table.dataset.optimize.compact_files()
    dropped = freed = 0
    if keep_days is not None:
        age = datetime.timedelta(days=keep_days)
        done = table.dataset.cleanup_old_versions(older_than=age)
        dropped, freed = done.old_versions, done.bytes_removed
    after = len(CodeTable(table.address).dataset.get_fragments())
    return Compacted(before, after, dropped, freed)


def _number(word: str) -> int:
    if not word.isdecimal():
        raise InputError(f"the ids of this table are numbers, got {word!r}")
    return int(word)

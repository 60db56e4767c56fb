"""Tables and shards held as one index, so that a server can ask them anything.

Codes of shards are mapped from their files. Of a table its ids, codes and metadata are
held in memory: about twice the code and the id a row.
"""

import os
from pathlib import Path

from gradsnap.errors import InputError
from gradsnap.index import ExhaustiveIndex, Index, load_index
from gradsnap.index.item_store import ItemStore
from gradsnap.index.roots import Roots
from gradsnap.index.segments import Segment, narrow
from gradsnap.scale.shard_folders import shards_in
from gradsnap.scale.table import CodeTable
from gradsnap.scale.table_search import code_batches, codes_of, ids_of


def joined_shards(folder: Path) -> Index:
    """All shards of a folder as one index: it answers as one of all items would.

    Raises:
        InputError: a shard is missing.
    """
    parts = [load_index(folder / name) for name in shards_in(folder)["shards"]]
    if not parts:
        raise InputError(f"{folder} holds no shards")
    first = parts[0]
    whole = type(first).from_config(first.coder, first.config(), first.refiner)
    if first.state():
        whole.restore(first.state())
    whole.fingerprint, whole.roots = first.fingerprint, first.roots
    whole.notes = dict(first.notes)
    for part in parts:
        _take(whole.items, part.items.segments)
    return whole


def _take(items: ItemStore, segments: list[Segment]) -> None:
    """Takes in the segments of the next shard.

    Numbers stay as they are. The order of strings, by which equal distances are
    ordered, begins anew in each shard, and goes on here.
    """
    shift = items.next_id if segments and segments[0].names is not None else 0
    for segment in segments:
        if shift:
            segment.first += shift
            if segment.ids is not None:
                segment.ids = narrow(segment.all_ids() + shift)
        items.append(segment)


def held_table(table: CodeTable) -> Index:
    """The rows of a table as an exhaustive index in memory."""
    coder, facts = table.coder, table.facts
    whole = ExhaustiveIndex(coder)
    for batch in code_batches(table, with_metadata=True):
        names = table.metadata_columns
        metadata = batch.select(names) if names else None
        whole.add_codes(codes_of(batch, coder), ids_of(batch), metadata)
    whole.fingerprint = facts.fingerprint
    if facts.source is not None and os.path.isdir(facts.source) and table.named:
        whole.roots = _with_pictures(whole, Roots().with_folder(facts.source))
    if facts.model is not None:
        whole.notes["model"] = facts.model
    return whole


def _with_pictures(index: Index, roots: Roots) -> Roots:
    """The roots, if the ids are files below them; a folder of tables has none."""
    first = next((one.names for one in index.items.segments if one.names), None)
    path = None if first is None else roots.path_of(first[0])
    return roots if path is not None and path.is_file() else Roots()

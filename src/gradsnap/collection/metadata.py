"""The metadata columns of a collection: its files' facts, labels, a table beside."""

import os
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gradsnap.collection.facts import FileFacts, facts_of_all
from gradsnap.collection.side_table import SideTable
from gradsnap.data import Dataset, ImageFiles
from gradsnap.index.segment_columns import storable


def metadata_of(
    dataset: Dataset, block: Tensor, beside: SideTable | None = None
) -> Any:
    """A pyarrow table of what is known of the items at indices (b,); None if nothing.

    Args:
        dataset: images in files have the columns of ``FileFacts``; where items have
            labels, there is a column ``label``, a list where an item has several.
        block: which items.
        beside: a table whose rows are joined by name.
    """
    import pyarrow

    places = block.tolist()
    columns: dict[str, Any] = {}
    labels = labels_of(dataset, block)
    if labels is not None:
        columns["label"] = pyarrow.array(labels)
    if isinstance(dataset.items, ImageFiles):
        root = dataset.items.root
        paths = [os.path.join(root, dataset.names[place]) for place in places]
        columns |= facts_columns(facts_of_all(paths))
    if beside is not None:
        names = [dataset.names[place] for place in places]
        columns |= beside.columns_for(names)
    return pyarrow.table(columns) if columns else None


def facts_columns(facts: Sequence[FileFacts]) -> dict[str, Any]:
    """Facts of n files as pyarrow columns."""
    import pyarrow as arrow

    moment = arrow.timestamp("us")
    types = {
        "size": arrow.int64(),
        "time": moment,
        "checksum": arrow.string(),
        "width": arrow.int32(),
        "height": arrow.int32(),
        "taken": moment,
        "camera": arrow.string(),
    }
    return {
        name: arrow.array([getattr(one, name) for one in facts], kind)
        for name, kind in types.items()
    }


def labels_of(dataset: Dataset, block: Tensor) -> list[str] | list[list[str]] | None:
    """Names of the labels of items at indices (b,); lists where there are several."""
    if dataset.labels is None:
        return None
    names = [storable(one) for one in dataset.classes]
    chosen = dataset.labels[block]
    if chosen.ndim == 1:
        return [names[label] for label in chosen.tolist()]
    return [
        [name for name, has in zip(names, row, strict=True) if has]
        for row in chosen.tolist()
    ]

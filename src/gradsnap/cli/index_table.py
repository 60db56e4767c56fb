"""Indexing a table, as ``gradsnap index`` asks for it."""

from pathlib import Path
from typing import Any

Layout = tuple[str, int | None, bool, int | None]
"""Options: kind, lists, residual, shards."""


def index_of_table(
    address: str,
    out: Path | None,
    layout: Layout,
    where: tuple[str | None, int],
    refused: dict[str, Any],
) -> dict[str, Any]:
    """Makes an index in a table, or folders of its codes; says what was made.

    Args:
        address: of the table.
        out: the folder of shards; None for an index in the table.
        layout: kind, lists, residual, shards.
        where: the work is done, and by how many workers; 0 is one a core.
        refused: options that are not for tables, with their values.

    Raises:
        InputError: an option is given that does not fit.
    """
    from gradsnap.errors import InputError
    from gradsnap.scale.ray_cluster import workers_on
    from gradsnap.scale.table import CodeTable

    for flag, value in refused.items():
        if value:
            raise InputError(f"{flag} is not for a .lance table")
    kind, lists, residual, shards = layout
    table = CodeTable(address)
    with workers_on(where[0], where[1] or None) as workers:
        if out is not None:
            return _folders(table, out, workers, (kind, lists, residual, shards or 1))
        _check_layout(kind, lists, residual, shards)
        return _inside(table, workers, lists)


def _inside(table: Any, workers: Any, lists: int | None) -> dict[str, Any]:
    from gradsnap.scale.lance_index import index_table
    from gradsnap.scale.table import CodeTable

    made = index_table(table, workers, lists)
    return {
        "items": len(table),
        "newly_indexed": made.rows,
        "new_parts": made.parts,
        "lists": made.lists,
        "version": CodeTable(table.address).dataset.version,
        "table": table.address,
    }


def _folders(
    table: Any, out: Path, workers: Any, layout: tuple[str, int | None, bool, int]
) -> dict[str, Any]:
    from gradsnap.cli.checks import check_place
    from gradsnap.errors import InputError
    from gradsnap.scale.shard_folders import build_shards

    kind, lists, residual, shards = layout
    if residual:
        raise InputError(
            "--residual needs other codes than those of the table: leave it out"
        )
    check_place(out)
    told = build_shards(table, out, shards, workers, kind, lists)
    return {
        "items": sum(told["rows"]),
        "shards": len(told["shards"]),
        "kind": kind,
        "folder": str(out),
    }


def _check_layout(
    kind: str, lists: int | None, residual: bool, shards: int | None
) -> None:
    """Refuses what an index in a table cannot be; never learns codebooks unasked."""
    from gradsnap.errors import InputError

    if shards is not None:
        raise InputError("--shards makes index folders: name them with --out")
    if kind != "exhaustive":
        raise InputError(f"--kind {kind} is for index folders: name one with --out")
    if (lists is None) == residual:
        raise InputError(
            "Lance codes what the centroid of a list leaves, so lists need codebooks "
            "of their own: give --lists N with --residual, to learn them from a "
            "sample, or neither, for one list and the codebooks of the model"
        )

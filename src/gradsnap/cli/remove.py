"""``gradsnap remove``: items out of an index, by id, pattern or condition."""

from typing import Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Quiet, Where

EXAMPLES = """
Examples:

`gradsnap remove photos.index cats/3.jpg`

`gradsnap remove photos.index '2019/*' 'drafts/*.png'`

`gradsnap remove photos.index --where 'width < 200' --dry-run`

`gradsnap remove photos.lance --where 'label = "draft"'`
"""

SHOWN = 10


def remove(
    index: Annotated[str, typer.Argument(help="An index folder or a .lance table.")],
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids, files, or patterns; * stands for anything."),
    ] = None,
    *,
    where: Where = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and stop.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Removes items from an index; the files themselves stay where they are.

    Earlier versions of a table still have what was removed.
    """
    from gradsnap.cli.output import say
    from gradsnap.scale.kinds import is_table
    from gradsnap.strings import shown

    act = _remove_rows if is_table(index) else _remove_items
    chosen, left = act(index, ids or [], where, dry_run)
    facts: dict[str, Any] = {
        "would remove" if dry_run else "removed": len(chosen),
        "items": left,
    }
    if as_json:
        facts["ids"] = chosen
    else:
        more = [f"… and {len(chosen) - SHOWN:,} more"] if len(chosen) > SHOWN else []
        facts["ids"] = "\n".join([*(shown(str(one)) for one in chosen[:SHOWN]), *more])
    say(f"index {index}", facts, as_json=as_json, quiet=quiet)


def _remove_items(
    index: str, ids: list[str], where: str | None, dry_run: bool
) -> tuple[list[Any], int]:
    """What is removed from an index folder, and how many items are left."""
    from gradsnap.cli.selection import chosen_ids
    from gradsnap.collection.syncing import compact_if_scattered
    from gradsnap.index import load_index

    opened = load_index(index)
    chosen = chosen_ids(opened, ids, where)
    if chosen and not dry_run:
        opened.remove(chosen)
        compact_if_scattered(opened)
        opened.save(index)
    return chosen, len(opened)


def _remove_rows(
    table: str, ids: list[str], where: str | None, dry_run: bool
) -> tuple[list[Any], int]:
    """The same of a table."""
    from gradsnap.scale.table import CodeTable
    from gradsnap.scale.versions import fitting_ids, remove_rows

    opened = CodeTable(table)
    chosen = fitting_ids(opened, ids, where)
    if chosen and not dry_run:
        remove_rows(opened, chosen)
    return chosen, len(CodeTable(table))

"""``gradsnap remove``: items out of an index, by id, pattern or condition."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Quiet, Where

EXAMPLES = """
Examples:

`gradsnap remove photos.index cats/3.jpg`

`gradsnap remove photos.index '2019/*' 'drafts/*.png'`

`gradsnap remove photos.index --where 'width < 200' --dry-run`
"""

SHOWN = 10


def remove(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
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
    """Removes items from an index; the files themselves stay where they are."""
    from gradsnap.cli.output import say
    from gradsnap.cli.selection import chosen_ids
    from gradsnap.collection.syncing import compact_if_scattered
    from gradsnap.index import load_index
    from gradsnap.strings import shown

    opened = load_index(index)
    chosen = chosen_ids(opened, ids or (), where)
    if chosen and not dry_run:
        opened.remove(chosen)
        compact_if_scattered(opened)
        opened.save(index)
    facts: dict[str, Any] = {
        "would remove" if dry_run else "removed": len(chosen),
        "items": len(opened),
    }
    if as_json:
        facts["ids"] = chosen
    else:
        more = [f"… and {len(chosen) - SHOWN:,} more"] if len(chosen) > SHOWN else []
        facts["ids"] = "\n".join([*(shown(str(one)) for one in chosen[:SHOWN]), *more])
    say(f"index {index}", facts, as_json=as_json, quiet=quiet)

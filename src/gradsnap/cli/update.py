"""``gradsnap update``: metadata of items, and where the folders of an index lie."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Quiet, Where

if TYPE_CHECKING:
    from gradsnap.index import Index

EXAMPLES = """
Examples:

`gradsnap update photos.index --metadata people.csv` – columns joined by name

`gradsnap update photos.index 'holiday/*' --set label=holiday --set stars=5`

`gradsnap update photos.index --where 'camera is null' --set scanned=true`

`gradsnap update photos.index --root /mnt/photos` – the folder was moved
"""


def update(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids, files or patterns; all items if not given."),
    ] = None,
    *,
    metadata: Annotated[
        Path | None, typer.Option(help="A CSV table, joined by the files' names.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="column=value; empty for no value."),
    ] = None,
    where: Where = None,
    root: Annotated[
        list[str] | None,
        typer.Option(help="Where the folder lies now; of a later one NAME=FOLDER."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Changes what an index knows of its items; nothing is embedded again."""
    from gradsnap.cli.output import say
    from gradsnap.cli.selection import chosen_ids
    from gradsnap.errors import InputError
    from gradsnap.index import load_index

    if not (metadata or values or root):
        raise InputError("nothing to update: give --metadata, --set or --root")
    opened = load_index(index)
    for one in root or ():
        _move_root(opened, one)
    facts: dict[str, Any] = {}
    if metadata or values:
        chosen = chosen_ids(opened, ids or (), where, every=True)
        facts = _update(opened, chosen, metadata, values or [])
    opened.save(index)
    facts |= {"items": len(opened), "columns": ", ".join(opened.columns)}
    say(f"index {index}", facts, as_json=as_json, quiet=quiet)


def _move_root(opened: "Index", word: str) -> None:
    from gradsnap.errors import InputError

    name, equals, folder = word.partition("=")
    if not equals or name not in opened.roots.by_name:
        name, folder = "", word
    if not Path(folder).is_dir():
        raise InputError(f"there is no folder {folder}")
    opened.roots = opened.roots.moved(name, folder)


def _update(
    opened: "Index", chosen: list[Any], metadata: Path | None, values: list[str]
) -> dict[str, Any]:
    """Writes columns for the chosen items; says how many got a row of the table."""
    from gradsnap.collection.side_table import RESERVED, SideTable, cells
    from gradsnap.errors import InputError

    facts: dict[str, Any] = {"updated": len(chosen)}
    if metadata is not None:
        table = SideTable(metadata)
        names = [str(one).rpartition("//")[2] for one in chosen]
        rows = [
            (one, name)
            for one, name in zip(chosen, names, strict=True)
            if table.row_of(name) is not None
        ]
        if rows:
            opened.update(
                [one for one, _ in rows], table.columns_for([name for _, name in rows])
            )
        missing = len(table.unmatched(names))
        facts = {"updated": len(rows), "rows of no item": missing}
    for word in values:
        name, equals, value = word.partition("=")
        if not equals or not name or name in RESERVED:
            raise InputError(
                f"--set needs column=value, got {word!r}; {', '.join(RESERVED)} cannot "
                "be set"
            )
        if chosen:
            opened.update(chosen, {name: cells([value] * len(chosen))})
    return facts

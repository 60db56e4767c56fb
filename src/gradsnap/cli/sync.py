"""``gradsnap sync``: an index brought in step with its folders."""

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Engine, NetworkFrom, Quiet, Workers

if TYPE_CHECKING:
    from gradsnap.collection.syncing import Plan
    from gradsnap.data import Dataset
    from gradsnap.index import Index

logger = logging.getLogger(__name__)

EXAMPLES = """
Examples:

`gradsnap sync photos.index` – all folders the index knows

`gradsnap sync photos.index photos/2024` – one of them, or a part of one

`gradsnap sync photos.index --dry-run` – only says what it would do
"""


def sync(
    index: Annotated[Path, typer.Argument(help="An index folder of images.")],
    source: Annotated[
        Path | None,
        typer.Argument(help="A folder of the index, or in one; all if not given."),
    ] = None,
    *,
    metadata: Annotated[
        Path | None,
        typer.Option(help="A CSV table for the new files, joined by their names."),
    ] = None,
    checksums: Annotated[
        bool,
        typer.Option("--checksums", help="Compare contents, not only size and time."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and stop.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="The model folder, if it was moved.")
    ] = None,
    workers: Workers = 0,
    engine: Engine = "auto",
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Adds what is new or changed, removes what is gone, renames what was renamed.

    All in one save: a crash leaves the index as it was.
    """
    from gradsnap.cli.output import say
    from gradsnap.collection.side_table import SideTable
    from gradsnap.collection.syncing import apply, compact_if_scattered
    from gradsnap.index import load_index
    from gradsnap.inference.engines import preferring

    started = time.monotonic()
    beside = None if metadata is None else SideTable(metadata)
    opened = load_index(index)
    plans = [_planned(opened, folder, checksums) for folder in _folders(opened, source)]
    counts = _counted(plans)
    if not dry_run:
        broken: list[str] = []
        for one in plans:
            new = apply(opened, one)
            with preferring(engine):
                broken += _add(opened, new, (model, network_from), workers, beside)
        compact_if_scattered(opened)
        opened.save(index)
        counts |= {"added": counts["added"] - len(broken), "broken": len(broken)}
    facts: dict[str, Any] = {**counts, "items": len(opened)}
    facts |= {"seconds": round(time.monotonic() - started, 2), "folder": str(index)}
    title = f"{index} would change so" if dry_run else f"{index} in step"
    say(title, facts, as_json=as_json, quiet=quiet)


def _folders(opened: "Index", source: Path | None) -> list[Path]:
    """The folders to look at; each must be there."""
    from gradsnap.errors import InputError

    known = [Path(root.folder) for root in opened.roots.by_name.values()]
    folders = known if source is None else [source]
    if not folders:
        raise InputError("this index knows no folder: name the one to look into")
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"there is no folder {folder}; if it was moved, say where to: "
                "gradsnap update INDEX --root FOLDER"
            )
    return folders


def _planned(opened: "Index", folder: Path, checksums: bool) -> "Plan":
    from gradsnap.collection.files import add_root
    from gradsnap.collection.syncing import plan
    from gradsnap.data.folders import open_folder
    from gradsnap.data.images import ImageOptions

    dataset = open_folder(folder, ImageOptions(labelled=False))
    if not opened.roots or opened.roots.place_of(folder) is not None:
        add_root(opened, dataset)  # links may be new
    return plan(opened, dataset, checksums)


def _counted(plans: "list[Plan]") -> dict[str, int]:
    names = plans[0].counts()
    return {name: sum(one.counts()[name] for one in plans) for name in names}


def _add(
    opened: "Index",
    new: "Dataset | None",
    model: tuple[str | None, str | None],
    workers: int,
    beside: Any,
) -> list[str]:
    """Adds files without saving yet; returns those that cannot be decoded."""
    from gradsnap.collection.adding import add_items
    from gradsnap.collection.syncing import without_broken
    from gradsnap.data.folders import first_few
    from gradsnap.errors import FileFormatError
    from gradsnap.inference.model import model_of

    if new is None:
        return []
    own = model_of(opened, *model)
    try:
        add_items(opened, own.stream(own.prepared(new), workers), beside)
    except FileFormatError:
        some, broken = without_broken(new)
        if not broken:
            raise
        logger.warning("left out, not decodable: %s", first_few(broken))
        if some is not None:
            add_items(opened, own.stream(own.prepared(some), workers), beside)
        return broken
    return []

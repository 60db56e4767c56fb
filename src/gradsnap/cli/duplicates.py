"""``gradsnap duplicates``: items of an index that are nearly the same."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Html, Open, Quiet, Where

if TYPE_CHECKING:
    from gradsnap.collection.duplicates import Duplicates
    from gradsnap.index import Index

EXAMPLES = """
Examples:

`gradsnap duplicates photos.index --open` – a sheet of pictures in the browser

`gradsnap duplicates photos.index --within 0.01 --json`

`gradsnap duplicates photos.index --within 0 --where 'folder contains "inbox"'`
"""

logger = logging.getLogger(__name__)

TOO_MANY = (
    "%d of %d items are in a group: a model that was trained on classes puts each "
    "class in one place; give a smaller --within, or use an index built without a model"
)


def duplicates(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    *,
    within: Annotated[
        float | None,
        typer.Option(
            help="Squared distance up to which two items are the same; 8% of the mean "
            "distance if not given.",
            show_default=False,
        ),
    ] = None,
    where: Where = None,
    html: Html = None,
    open_: Open = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints groups of items that are nearly the same; nothing is removed."""
    from gradsnap.cli.checks import check_place
    from gradsnap.cli.found import as_json as plain
    from gradsnap.cli.found import rows_of
    from gradsnap.collection.duplicates import find_duplicates
    from gradsnap.index import load_index

    if html is not None:
        check_place(html)
    opened = load_index(index)
    found = find_duplicates(opened, within, where)
    groups = [rows_of(opened, group) for group in found.groups]
    if within is None and 2 * sum(map(len, groups)) > len(opened) > 2:
        logger.warning(TOO_MANY, sum(map(len, groups)), len(opened))
    if html is not None or open_:
        _write(opened, found, groups, html, open_)
    if as_json:
        answer = {"within": found.within, "groups": groups}
        sys.stdout.write(json.dumps(answer, indent=2, default=plain) + "\n")
    elif not quiet:
        _show(found, groups)


def _show(found: "Duplicates", groups: list[list[dict[str, Any]]]) -> None:
    from gradsnap.cli.found import show_table

    columns = ["distance", "size", "path"]
    for number, rows in enumerate(groups, 1):
        named = [name for name in columns if name in rows[0]]
        first = [] if "path" in named else ["id"]
        show_table(f"group {number}", rows, [*first, *named])
    total = sum(map(len, groups))
    typer.echo(f"{len(groups)} groups, {total} items within {found.within:.4g}")


def _write(
    opened: "Index",
    found: "Duplicates",
    groups: list[list[dict[str, Any]]],
    html: Path | None,
    opens: bool,
) -> None:
    from gradsnap.cli.found import footer, group_of, write_page
    from gradsnap.reports.tiles import sheet

    lead = (
        f"Groups of items of which each is within a squared distance of "
        f"{found.within:.4g} of another one; distances are to the first of a group."
    )
    sections = [
        group_of(opened, f"Group {number}: {len(rows)} items", rows)
        for number, rows in enumerate(groups, 1)
    ]
    write_page(html, sheet("Near-duplicates", lead, sections, footer()), opens)

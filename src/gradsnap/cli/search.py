"""``gradsnap search``: the nearest items of images, of vectors, or of items."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Html, NetworkFrom, Open, Quiet, Where

if TYPE_CHECKING:
    from gradsnap.collection.queries import Query
    from gradsnap.index import Index

EXAMPLES = """
Examples:

`gradsnap search photos.index query.jpg --open` – with pictures, in the browser

`gradsnap search photos.index a.jpg b.jpg --together` – what is like both

`gradsnap search photos.index query.jpg --where 'label = "cat" and year > 2020'`

`gradsnap search photos.index --id cats/3.jpg -k 5 --json`

`curl https://example.org/cat.jpg | gradsnap search photos.index -`

`gradsnap search v.index queries.npy -k 100 --probes 32 --json`
"""


FEW = 1_000_000
"""Codes that are compared sooner than the kernels for them are imported."""


def search(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    queries: Annotated[
        list[str] | None,
        typer.Argument(
            help="Images, folders of images, files of vectors; - is standard input: "
            "an image, vectors as .npy, or paths.",
        ),
    ] = None,
    *,
    item: Annotated[
        list[str] | None,
        typer.Option("--id", help="Search by an item of the index; may be repeated."),
    ] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="One list for all queries, not one for each."),
    ] = False,
    k: Annotated[int, typer.Option("-k", help="Results of each query.")] = 10,
    where: Where = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of the table, such as distance,taken,camera,path."),
    ] = None,
    html: Html = None,
    open_: Open = False,
    model: Annotated[
        str | None, typer.Option(help="The model folder, if it was moved.")
    ] = None,
    probes: Annotated[
        int | None, typer.Option(help="Lists to look into, of an index with lists.")
    ] = None,
    rerank: Annotated[
        int | None, typer.Option(help="How many to compare again, with --keep-half.")
    ] = None,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints the nearest items, nearest first, with what the index knows of them."""
    from gradsnap.cli.checks import check_place
    from gradsnap.cli.found import check_columns, rows_of
    from gradsnap.collection import queries as asking
    from gradsnap.compiled import sparing_numba
    from gradsnap.errors import InputError
    from gradsnap.index import load_index

    if not queries and not item:
        raise InputError("name a query, or an item of the index with --id")
    if html is not None:
        check_place(html)
    opened = load_index(index)
    wanted = check_columns(opened, columns)
    if probes is not None:
        _set_probes(opened, probes)
    asked = _queries(opened, queries or [], item or [], (model, network_from))
    if together:
        asked = [asking.together(asked, opened)]
    with sparing_numba(len(opened) * len(asked) <= FEW):
        results = asking.search(opened, asked, k, where, rerank)
    found = [
        (one, rows_of(opened, pairs)) for one, pairs in zip(asked, results, strict=True)
    ]
    if html is not None or open_:
        _write(opened, found, html, open_, quiet or as_json)
    if not quiet:
        _show([(one.name, rows) for one, rows in found], wanted, as_json)


def _set_probes(opened: "Index", probes: int) -> None:
    from gradsnap.errors import InputError

    if opened.num_lists is None:
        raise InputError(f"--probes is for an index with lists; this is {opened.kind}")
    opened.probes = probes  # type: ignore[attr-defined]


def _queries(
    opened: "Index",
    words: list[str],
    items: list[str],
    model: tuple[str | None, str | None],
) -> "list[Query]":
    from gradsnap.cli.selection import item_id
    from gradsnap.collection.queries import Query, read_queries
    from gradsnap.inference.model import model_of

    asked = []
    for word in items:
        one = item_id(opened, word)
        path = opened.path_of(one)
        asked.append(Query(str(one), item=one, path=path))
    if words:
        made = model_of(opened, *model)
        asked += read_queries(words, made, lambda: sys.stdin.buffer.read())
    return asked


def _show(
    found: list[tuple[str, list[dict[str, Any]]]], columns: list[str], as_json: bool
) -> None:
    from gradsnap.cli.found import as_json as plain
    from gradsnap.cli.found import show_table

    if as_json:
        answers = [{"query": name, "results": rows} for name, rows in found]
        sys.stdout.write(json.dumps(answers, indent=2, default=plain) + "\n")
        return
    for name, rows in found:
        show_table(f"nearest to {name}", rows, columns)


def _write(
    opened: "Index",
    found: "list[tuple[Query, list[dict[str, Any]]]]",
    html: Path | None,
    opens: bool,
    silent: bool,
) -> None:
    """Writes the results as a page, each query before what was found."""
    from gradsnap.cli.found import footer, group_of, write_page
    from gradsnap.reports.tiles import Tile, sheet

    groups = []
    for query, rows in found:
        group = group_of(opened, f"nearest to {query.name}", rows)
        asked = [] if query.path is None else [Tile(query.name, query.path, "query")]
        groups.append(group._replace(tiles=[*asked, *group.tiles]))
    lead = f"What lies nearest in an index of {len(opened):,} items, nearest first."
    page = write_page(html, sheet("Search results", lead, groups, footer()), opens)
    if not silent:
        typer.echo(f"page: {page}", err=True)

"""``gradsnap search``: the nearest items of images, of vectors, or of items."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gradsnap.cli.options import AsJson, Html, NetworkFrom, On, Open, Quiet, Where
from gradsnap.cli.output import readable

if TYPE_CHECKING:
    from gradsnap.cli.search_scale import Asked
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

`gradsnap search photos.lance query.jpg --version 3` – a table, as it was

`gradsnap search big.index query.jpg --on ray --partial 2` – a folder of shards
"""


FEW = 1_000_000
"""Codes that are compared sooner than the kernels for them are imported."""


def search(
    index: Annotated[
        str,
        typer.Argument(help="An index folder, one of shards, or a .lance table."),
    ],
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
    on: On = None,
    partial: Annotated[
        float | None,
        typer.Option(
            help="Of shards: wait so many seconds, answer by those that did, and say "
            "which are missing; else all are waited for.",
            min=0,
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Of a table: search it as it was then.")
    ] = None,
    by_codes: Annotated[
        bool,
        typer.Option("--by-codes", help="Of a table: by all codes, not Lance's index."),
    ] = False,
    network_from: NetworkFrom = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints the nearest items, nearest first, with what the index knows of them."""
    from gradsnap.cli.search_scale import Asked, is_large, refuse

    words, items = queries or [], item or []
    small = {"--id": items, "--together": together, "--rerank": rerank}
    small |= {"--html": html, "--open": open_, "--columns": columns}
    large = {"--on": on, "--partial": partial, "--version": version}
    large |= {"--by-codes": by_codes}
    asked = Asked(k, where, probes, model, network_from, on, partial, version, by_codes)
    if is_large(index):
        refuse(small, "index folders without shards")
        _search_large(index, words, asked, as_json, quiet)
        return
    refuse(large, "tables and folders of shards")
    wanted = Wanted(items, together, rerank, columns, html, open_, as_json, quiet)
    _search_folder(Path(index), words, asked, wanted)


class Wanted(NamedTuple):
    """What else an index folder can be asked, and how results are shown."""

    items: list[str]
    together: bool
    rerank: int | None
    columns: str | None
    html: Path | None
    opens: bool
    as_json: bool
    quiet: bool


def _search_large(
    index: str, words: list[str], asked: "Asked", as_json: bool, quiet: bool
) -> None:
    """Searches a table or a folder of shards, and says which shards are missing."""
    from gradsnap.cli.search_scale import search_large

    answer = search_large(index, words, asked)
    for name, reason in answer.missing.items():
        typer.echo(readable(f"missing: {name} ({reason})"), err=True)
    if as_json or not quiet:
        _show(answer.found, [], as_json, list(answer.missing))


def _search_folder(
    index: Path, words: list[str], asked: "Asked", wanted: Wanted
) -> None:
    """Searches an index folder, and prints or draws what was found."""
    from gradsnap.cli.checks import check_place
    from gradsnap.cli.found import check_columns, rows_of
    from gradsnap.collection import queries as asking
    from gradsnap.compiled import sparing_numba
    from gradsnap.errors import InputError
    from gradsnap.index import load_index

    if not words and not wanted.items:
        raise InputError("name a query, or an item of the index with --id")
    if wanted.html is not None:
        check_place(wanted.html)
    opened = load_index(index)
    columns = check_columns(opened, wanted.columns)
    if asked.probes is not None:
        _set_probes(opened, asked.probes)
    queries = _queries(opened, words, wanted.items, (asked.model, asked.network_from))
    if wanted.together:
        queries = [asking.together(queries, opened)]
    with sparing_numba(len(opened) * len(queries) <= FEW):
        results = asking.search(opened, queries, asked.k, asked.where, wanted.rerank)
    pairs = zip(queries, results, strict=True)
    found = [(one, rows_of(opened, hits)) for one, hits in pairs]
    if wanted.html is not None or wanted.opens:
        _write(opened, found, wanted)
    if wanted.as_json or not wanted.quiet:
        _show([(one.name, rows) for one, rows in found], columns, wanted.as_json)


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
    found: list[tuple[str, list[dict[str, Any]]]],
    columns: list[str],
    as_json: bool,
    missing: list[str] | None = None,
) -> None:
    from gradsnap.cli.found import as_json as plain
    from gradsnap.cli.found import show_table

    if as_json:
        more = {"missing": missing} if missing else {}
        answers = [{"query": name, "results": rows, **more} for name, rows in found]
        sys.stdout.write(json.dumps(answers, indent=2, default=plain) + "\n")
        return
    for name, rows in found:
        show_table(f"nearest to {name}", rows, columns)


def _write(
    opened: "Index",
    found: "list[tuple[Query, list[dict[str, Any]]]]",
    wanted: Wanted,
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
    text = sheet("Search results", lead, groups, footer())
    page = write_page(wanted.html, text, wanted.opens)
    if not (wanted.quiet or wanted.as_json):
        typer.echo(readable(f"page: {page}"), err=True)

"""``gradsnap reproduce``: a table or figure of the paper, measured again."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsnap.cli.options import AsJson, Quiet, Root
from gradsnap.cli.output import console, readable

if TYPE_CHECKING:
    from gradsnap.experiments.results import Result

EXAMPLES = """
Examples:

`gradsnap reproduce` – lists the tables and figures

`gradsnap reproduce table-3 --quick` – two minutes on the digits

`gradsnap reproduce table-3 --data cifar10 --root data/cifar-10-batches-bin`

`gradsnap reproduce table-3 --data mnist --root data/MNIST --methods dhn,snapping`

`gradsnap reproduce figure-4b --data data/voc2007-part` – a stand-in for NUS-WIDE
"""

SHOWN = 8
"""Columns on a terminal; the page has all."""


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            help="table-1, …, figure-4c; none lists them.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings of every run, as section.key=value.", show_default=False
        ),
    ] = None,
    *,
    data: Annotated[
        str | None,
        typer.Option(
            help="A data set by name or path; the paper's if not given.",
            show_default=False,
        ),
    ] = None,
    root: Root = None,
    trunk: Annotated[
        str | None,
        typer.Option(
            help="The network that all methods share: frozen, alexnet, small, pixels "
            "or vectors; by the data if not given.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="AlexNet's weights, of torchvision.", show_default=False),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Rows to run, separated by commas; columns in table-1.",
            show_default=False,
        ),
    ] = None,
    bits: Annotated[
        str | None,
        typer.Option(help="Lengths of code, separated by commas.", show_default=False),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="How many; 3, and 1 with --quick.", show_default=False),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Few steps, on the digits unless --data is given."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path(
        "results"
    ),
    cache: Annotated[
        Path | None,
        typer.Option(
            help="The folder of finished runs and vectors; ~/.cache/gradsnap if not "
            "given.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measures a table or figure of the paper again, its figures beside ours.

    All methods have the same network, splits, steps and seeds; rate and strength of
    each are chosen on a validation part. Finished runs are kept: the same command goes
    on where it stopped. Writes JSON, CSV, Markdown and a picture.
    """
    from gradsnap.experiments import EXPERIMENTS

    if name is None:
        _list({one.name: one.summary for one in EXPERIMENTS.values()}, as_json, quiet)
        return
    from gradsnap.errors import InputError
    from gradsnap.experiments.bench import Bench
    from gradsnap.experiments.plan import Request
    from gradsnap.experiments.reproduce import Reproduction
    from gradsnap.experiments.sources import Source
    from gradsnap.registry import chosen
    from gradsnap.reports.page import writable_folder

    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds must be 1 or more, got {seeds}")
    experiment = chosen(EXPERIMENTS, name, "table or figure")
    bench = Bench(
        source=Source(data or ("digits" if quick else experiment.data), root),
        folder=cache or Path.home() / ".cache" / "gradsnap" / "experiments",
        trunk_name=trunk,
        seeds=seeds or (1 if quick else 3),
        words=tuple(settings or ()),
        weights=None if weights is None else str(weights),
        quick=quick,
    )
    request = Request(_numbers(bits), _words(methods))
    logging.getLogger("gradsnap").setLevel("WARNING")
    logging.getLogger("gradsnap.experiments").setLevel("WARNING" if quiet else "INFO")
    with writable_folder(out):
        job = Reproduction(experiment, bench, request, out)
        try:
            result = job.run()
        except KeyboardInterrupt:
            typer.echo("interrupted: the same command goes on from here", err=True)
            raise typer.Exit(130) from None
    _report(result, out / f"{job.stem}.md", as_json, quiet)


def _list(summaries: dict[str, str], as_json: bool, quiet: bool) -> None:
    from gradsnap.cli.output import say

    title = "Tables and figures of the paper: gradsnap reproduce NAME"
    if as_json or quiet:
        say(title, summaries, as_json=as_json, quiet=quiet)
        return
    wide = max(map(len, summaries))
    typer.echo(title)
    for name, summary in summaries.items():
        typer.echo(f"  {name:{wide}}  {summary}")


def _words(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str | None) -> tuple[int, ...] | None:
    from gradsnap.errors import InputError

    words = _words(text)
    if words is None:
        return None
    try:
        return tuple(sorted({int(word) for word in words}))
    except ValueError as error:
        raise InputError(
            f"--bits takes whole numbers: 24,32,48; got {text!r}"
        ) from error


def _report(result: "Result", page: Path, as_json: bool, quiet: bool) -> None:
    import json
    import sys

    if as_json:
        record: dict[str, Any] = result.record()
        sys.stdout.write(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    if as_json or quiet:
        return
    from rich.table import Table

    every = result.columns()
    columns = every[:: -(-len(every) // SHOWN) or 1]
    table = Table(title=result.title, title_justify="left")
    for head in ("method", *columns):
        table.add_column(head, overflow="fold")
    for row in result.rows():
        cells = [result.cell(row, column) for column in columns]
        table.add_row(row, *(_both(one.published, one.shown) for one in cells))
    shown = console(160)
    shown.print(table)
    some = "" if columns == every else f"; {len(columns)} of {len(every)} columns"
    shown.print(f"ours, and in brackets the paper's{some}", highlight=False)
    sys.stdout.write(f"{readable(str(page))}\n")


def _both(published: str, ours: str) -> str:
    return f"{ours} ({published})" if published else ours

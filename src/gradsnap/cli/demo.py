"""``gradsnap demo``: digits by codes of half a byte, a table and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gradsnap.cli.options import AsJson, Quiet
from gradsnap.cli.output import console

if TYPE_CHECKING:
    from gradsnap.demo.demo import Findings
    from gradsnap.reports.findings import Range

EXAMPLES = """
Examples:

`gradsnap demo` – a minute or two; then open report/index.html in a browser

`gradsnap demo --quick` – seconds: does this installation work?

`gradsnap demo --seeds 5 --out /tmp/report --json`
"""


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The report's folder.")] = Path("report"),
    seeds: Annotated[
        int, typer.Option(help="How often each network is trained.", min=1)
    ] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="Seconds instead: does it run?")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Trains one network without snapping, with it, and through its codes.

    On the digits that come with scikit-learn, for codes of half a byte, then of one and
    two; nothing is downloaded. Each side gets the learning rate and the weights that
    suit it best on a validation part.
    """
    from gradsnap.cli.output import say
    from gradsnap.demo import DemoSettings, record, run_demo
    from gradsnap.demo.served import INDEX

    settings = DemoSettings.quick() if quick else DemoSettings(seeds=seeds)
    found = run_demo(out, settings)
    told = record(found) | {
        "report": str(out / "index.html"),
        "index": str(out / INDEX),
    }
    if as_json:
        say("", told, as_json=True, quiet=quiet)
    elif not quiet:
        _show(found, told)


def _show(found: "Findings", record: dict[str, Any]) -> None:
    from rich.table import Table

    from gradsnap.demo import cells
    from gradsnap.demo.verdicts import at_length, on_length

    title = f"digits, {record['bits']}-bit codes, mean over {found.settings.runs}"
    table = Table(title=title, title_justify="left")
    lines = [cells(side.row) for side in found.sides.values()]
    for column in lines[0]:
        shown = [_shown(line[column]) for line in lines]
        # Headings wrap at words: left to itself, rich cuts them in 80 columns.
        width = max(map(len, [*column.split(), *shown]))
        justify: Literal["left", "right"] = "left" if column == "network" else "right"
        table.add_column(column, justify=justify, width=width)
    for line in lines:
        table.add_row(*map(_shown, line.values()))
    floats = found.sides["plain"].row
    out = console(None)
    out.print(table)
    told = [
        f"Codes take {floats.bytes_a_vector:g} bytes a vector; floats "
        f"{floats.float_bytes_a_vector}, and {floats.float_milliseconds_a_query:.3f} "
        "ms a query.",
        *record["verdict"],
        *(on_length(n, at_length(found.sides, n)) for n in found.settings.lengths[1:]),
        record["verdict_against_bits"],
        f"Report: {record['report']} ({record['seconds']:.0f} s)",
        f"Search the digits in a browser: gradsnap serve {record['index']}",
    ]
    for sentence in told:
        out.print(sentence, highlight=False)


def _shown(cell: "str | Range") -> str:
    return cell if isinstance(cell, str) else f"{cell.mean:.3f}"

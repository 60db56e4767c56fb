"""``gradsnap demo``: the digits with and without snapping, a table and a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gradsnap.cli.options import AsJson, Quiet

if TYPE_CHECKING:
    from gradsnap.demo.figures import Range, Row
    from gradsnap.demo.findings import Findings

EXAMPLES = """
Examples:

`gradsnap demo` – a minute or two; then open report/index.html in a browser

`gradsnap demo --seeds 5 --out /tmp/report --json`
"""


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The report's folder.")] = Path("report"),
    seeds: Annotated[
        int, typer.Option(help="How often each network is trained.", min=1)
    ] = 3,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Trains one network with and without snapping, and shows what the codes lose.

    On the digits that come with scikit-learn; nothing is downloaded. Each side gets the
    learning rate that suits it best on a validation part.
    """
    from gradsnap.cli.output import say
    from gradsnap.demo import DemoSettings, run_demo

    found = run_demo(out, DemoSettings(seeds=seeds))
    record = found.record() | {"report": str(out / "index.html")}
    if as_json:
        say("", record, as_json=True, quiet=quiet)
    elif not quiet:
        _show(found, record)


def _show(found: "Findings", record: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"digits, {record['bits']}-bit codes, mean over {record['seeds']} seeds"
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(COLUMNS):
        justify: Literal["left", "right"] = "right" if number else "left"
        table.add_column(column, justify=justify, no_wrap=number == 0)
    for row in found.rows.values():
        table.add_row(*_cells(row))
    floats = next(iter(found.rows.values()))
    console = Console()
    console.print(table)
    console.print(
        f"Floats take {floats.float_bytes_a_vector} bytes a vector and "
        f"{floats.float_milliseconds_a_query:.3f} ms a query.",
        highlight=False,
    )
    for sentence in record["verdict"]:
        console.print(sentence, highlight=False)
    console.print(
        f"Report: {record['report']} ({record['seconds']:.0f} s)", highlight=False
    )


COLUMNS = (
    "network",
    "float MAP",
    "code MAP",
    "quantization error",
    "bytes a vector",
    "ms a query",
)


def _cells(row: "Row") -> list[str]:
    def mean(value: "Range") -> str:
        return f"{value.mean:.3f}"

    return [
        row.name,
        mean(row.float_map),
        mean(row.code_map),
        mean(row.relative_error),
        f"{row.bytes_a_vector:g}",
        f"{row.milliseconds_a_query:.3f}",
    ]

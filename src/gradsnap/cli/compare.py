"""``gradsnap compare``: runs side by side, if they answer the same question."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradsnap.cli.options import AsJson, Quiet
from gradsnap.cli.output import console, readable

if TYPE_CHECKING:
    from gradsnap.evaluation import Comparison

EXAMPLES = """
Examples:

`gradsnap compare plain snapped` – two model folders that were evaluated

`gradsnap compare a/evaluation/codes.json b/evaluation/codes.json --allow-differences`
"""


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Files of gradsnap evaluate, or model folders."),
    ],
    *,
    of: Annotated[
        str | None,
        typer.Option(
            help="What of model folders: codes, floats or both; codes if there are "
            "several folders, both if there is one.",
            show_default=False,
        ),
    ] = None,
    allow_differences: Annotated[
        bool,
        typer.Option("--allow-differences", help="Compare although cards differ."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prints MAP of all runs, each tested against the first on the same queries.

    Cards that differ in what a figure means are refused, with what differs.
    """
    from gradsnap.evaluation import compare as compared
    from gradsnap.evaluation import load_run

    names = _kinds(of, len(runs))
    files = [file for path in runs for file in _files(path, names)]
    found = compared(
        [load_run(file) for file in files], allow_differences=allow_differences
    )
    if as_json:
        sys.stdout.write(json.dumps(_records(found), indent=2) + "\n")
    elif not quiet:
        _show(found)


def _kinds(of: str | None, count: int) -> list[str]:
    """The files of a folder that are compared: like with like where there are several.

    Raises:
        InputError: of something else.
    """
    from gradsnap.errors import InputError

    kinds = {"codes": ["codes.json"], "floats": ["floats.json"]}
    kinds["both"] = [*kinds["floats"], *kinds["codes"]]
    chosen = of or ("codes" if count > 1 else "both")
    if chosen not in kinds:
        raise InputError(f"--of cannot be {of!r}; choose from {', '.join(kinds)}")
    return kinds[chosen]


def _files(path: Path, names: list[str]) -> list[Path]:
    """Such runs of a model folder, or the file itself."""
    from gradsnap.errors import InputError

    if not path.is_dir():
        return [path]
    folder = path / "evaluation" if (path / "evaluation").is_dir() else path
    found = [folder / name for name in names]
    if not any(file.is_file() for file in found):
        raise InputError(f"{path} was not evaluated yet: gradsnap evaluate {path}")
    return [file for file in found if file.is_file()]


def _records(found: "Comparison") -> list[dict[str, object]]:
    return [
        {
            "name": run.name,
            "map": run.spread.mean,
            "differences": [str(one) for one in run.differences],
            "against_first": run.against_first and asdict(run.against_first),
        }
        for run in found.runs
    ]


def _show(found: "Comparison") -> None:
    from rich.table import Table

    table = Table()
    for column in ("run", "MAP", "beside the first", "differs in"):
        table.add_column(column)
    for run in found.runs:
        test = "" if run.against_first is None else str(run.against_first)
        differs = "\n".join(str(one) for one in run.differences)
        cells = (run.name, str(run.spread), test, differs)
        table.add_row(*map(readable, cells))
    console(None).print(table)

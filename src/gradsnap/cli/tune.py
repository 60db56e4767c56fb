"""``gradsnap tune``: chooses the settings of a run within a time budget."""

import contextlib
import itertools
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gradsnap.cli.options import AsJson, NetworkFrom, Quiet, Root, SkipBad
from gradsnap.cli.output import console, readable

if TYPE_CHECKING:
    from rich.table import Table

    from gradsnap.training.trials import Summary
    from gradsnap.training.tuning import Tuner

EXAMPLES = """
Examples:

`gradsnap tune photos/ --bits 32 --minutes 10` – then run the command it prints

`gradsnap tune digits --bits 4 --minutes 2 network.name=mlp` – settings hold for all

`gradsnap tune vectors.npz --bits 16 --out search optimizer.rate=0.003` – only the rest
"""

FLAGS = ("data.source", "data.root", "data.skip_bad", "coder.bits")
"""Settings that the command names by other words."""

SHOWN = 12
"""Lines of the live table."""

logger = logging.getLogger("gradsnap.tune")


def tune(
    source: Annotated[
        str,
        typer.Argument(
            help="A folder of classes, a file of vectors, a table, or a name.",
            show_default=False,
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="Settings of every trial, as section.key=value.", show_default=False
        ),
    ] = None,
    *,
    bits: Annotated[int, typer.Option(help="Length of a code.", show_default=False)],
    minutes: Annotated[float, typer.Option(help="How long it may take.")] = 10.0,
    out: Annotated[
        Path, typer.Option(help="The folder for records and the report.")
    ] = Path("tuning"),
    root: Root = None,
    network_from: NetworkFrom = None,
    skip_bad: SkipBad = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Chooses dimension, codebooks, layer and rate on a validation part.

    The test queries are never looked at. Finished trials are kept in the folder: the
    same command goes on where it stood. Prints the command that trains the choice.
    """
    from gradsnap.errors import InputError

    if not minutes > 0:
        raise InputError(f"--minutes must be more than 0, got {minutes:g}")
    from gradsnap.reports.page import writable_folder
    from gradsnap.training.new_tuner import new_tuner
    from gradsnap.training.settings import literal

    named = zip(FLAGS, (source, root, skip_bad or None, bits), strict=True)
    words = [f"{key}={literal(one)}" for key, one in named if one is not None]
    words += settings or []
    logging.getLogger("gradsnap").setLevel("WARNING" if quiet else "INFO")
    with writable_folder(out):
        tuner = new_tuner(words, minutes, out, network_from)
        try:
            with _watched(tuner, quiet):
                tuner.run()
        except KeyboardInterrupt:
            typer.echo("interrupted: the same command goes on from here", err=True)
            raise typer.Exit(130) from None
        command = ["gradsnap", "train", source, "--bits", str(bits), "--out", "model"]
        command += [] if root is None else ["--root", root]
        command += [] if network_from is None else ["--network-from", network_from]
        command += ["--skip-bad"] if skip_bad else []
        found = _findings(tuner, command)
        _write_page(tuner, found, out / "index.html")
    _report(tuner, found | {"report": str(out / "index.html")}, as_json, quiet)


@contextlib.contextmanager
def _watched(tuner: "Tuner", quiet: bool) -> Iterator[None]:
    """A live table on a terminal, and a line for each trial elsewhere."""
    from rich.console import Console
    from rich.live import Live

    from gradsnap.progress import silenced

    if quiet or not sys.stderr.isatty():
        tuner.tell = lambda tuner: logger.info(_now(tuner))
        yield
        return
    with silenced(True), Live(console=Console(stderr=True), transient=True) as live:
        tuner.tell = lambda tuner: live.update(_table(tuner, _now(tuner)), refresh=True)
        yield


def _findings(tuner: "Tuner", command: list[str]) -> dict[str, Any]:
    """What was found, as plain values."""
    best, plain = tuner.choice(), tuner.best("plain")

    def full(one: "Summary") -> str:
        every = [*tuner.trials.base, *tuner.settings(one)]
        last = {word.partition("=")[0].strip(): word for word in every}
        return shlex.join([*command, *(last[key] for key in last if key not in FLAGS)])

    return {
        "data": command[2],
        "choice": list(best.trial.settings),
        "validation_code_map": best.mean,
        "validation_float_map": best.results[0].float_map,
        "codebooks": best.results[0].fitted_to,
        "plain_validation_code_map": plain and plain.mean,
        "verdict": tuner.verdict(),
        "untried": tuner.untried(),
        "steps": tuner.steps,
        "seconds": round(tuner.used, 1),
        "command": full(best),
        "plain_command": plain and full(plain),
    }


def _write_page(tuner: "Tuner", found: dict[str, Any], path: Path) -> None:
    from gradsnap.files import write_text
    from gradsnap.reports.tuned import Search, tuned_page
    from gradsnap.training.grid import KINDS

    start = sum(one.seconds for one in tuner.probes)
    results = list(tuner.results.values())
    ends = itertools.accumulate((one.seconds for one in results), initial=start)
    timed = list(zip(itertools.islice(ends, 1, None), results, strict=True))
    maps = {
        kind: [(end, one.code_map) for end, one in timed if one.trial.layer == kind]
        for kind in KINDS
    }
    title = f"Settings for {tuner.grid.bits}-bit codes of {found['data']}"
    rows = [_cells(one) for one in tuner.summaries()]
    told = found["verdict"], found["command"], found["untried"]
    write_text(path, tuned_page(Search(title, maps, COLUMNS + MORE, rows, *told)))


COLUMNS = ("layer", "λ", "μ", "K", "dim", "rate", "steps", "codes", "floats")
"""Of both tables; the last two are MAP on the validation part."""
MORE = ("codebooks", "seconds")
"""Of the page's table."""


def _cells(one: "Summary") -> list[str]:
    trial, first = one.trial, one.results[0]
    numbers = trial.strength, trial.mixture, trial.codebook_size, trial.dim, trial.rate
    seconds = sum(result.seconds for result in one.results)
    return [
        trial.layer,
        *("–" if number is None else f"{number:g}" for number in numbers),
        f"{one.steps}",
        "failed" if first.error else str(one),
        f"{first.float_map:.3f}",
        "kept" if first.fitted_to == "none" else first.fitted_to,
        f"{seconds:.1f}",
    ]


def _table(tuner: "Tuner", title: str) -> "Table":
    """The best trials so far."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in COLUMNS:
        side: Literal["left", "right"] = "left" if column == "layer" else "right"
        table.add_column(column, justify=side, no_wrap=True)
    for one in tuner.summaries()[:SHOWN]:
        table.add_row(*_cells(one)[: len(COLUMNS)])
    return table


def _report(tuner: "Tuner", found: dict[str, Any], as_json: bool, quiet: bool) -> None:
    from gradsnap.cli.output import say

    if quiet or as_json:
        say("", found, as_json=as_json, quiet=quiet)
        return
    shown = console(None)
    title = "The best settings: MAP of codes and floats on the validation part"
    shown.print(_table(tuner, title))
    left = f"Not tried: {', '.join(found['untried'])}." if found["untried"] else ""
    for line in (found["verdict"], left, f"Report: {found['report']}"):
        shown.print(readable(line), highlight=False)
    shown.print("To train the choice:")
    sys.stdout.write(readable(found["command"]) + "\n")  # in one line, to be copied


def _now(tuner: "Tuner") -> str:
    return f"{_clock(tuner.used)} of {_clock(tuner.budget)}: {tuner.now}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"

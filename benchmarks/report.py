"""Rows of a benchmark: a table for the reader, JSON with the machine for the record."""

import json
import operator
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from rich import box
from rich.console import Console
from rich.table import Table

from gradsnap.files import replacing

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("gradsnap", "torch", "faiss-cpu", "numpy", "numba")

SIGNS = {"≥": operator.ge, "≤": operator.le, "<": operator.lt}

Record = dict[str, Any]


class Line(Protocol):
    """Anything that can be one row of a table."""

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""

    def record(self) -> Record:
        """What is written to the JSON file."""


@dataclass(frozen=True)
class Bar:
    """What a ratio has to reach.

    Args:
        sign: one of ``SIGNS``.
        value: the bar.
        goal: what we would like, where that is more than the bar.
    """

    sign: str
    value: float
    goal: float | None = None

    def met(self, measured: float) -> bool:
        """Whether a measured value passes."""
        return bool(SIGNS[self.sign](measured, self.value))

    def __str__(self) -> str:
        goal = "" if self.goal is None else f" (goal {self.goal:g})"
        return f"{self.sign} {self.value:g}{goal}"


@dataclass(frozen=True)
class Row:
    """One comparison: ours, theirs, and what their ratio has to reach.

    Args:
        what: is measured, and on what.
        ours: our figure.
        theirs: the peer's, in the same run.
        unit: of both.
        ratio: of the two, so that the bar can be read off; the bar judges ours alone
            where there is none.
        bar: none where a figure is only reported.
        fair: false where a condition of the comparison fails (codes that err more);
            the bar is then not met, whatever the ratio.
        note: what else the reader has to know.
    """

    what: str
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    ratio: float | None = None
    bar: Bar | None = None
    fair: bool = True
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is no bar or no figure."""
        judged = self.ours if self.ratio is None else self.ratio
        if self.bar is None or judged is None:
            return None
        return self.fair and self.bar.met(judged)

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        met = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[self.met]
        return {
            "what": self.what,
            "ours": _figure(self.ours, self.unit),
            "theirs": _figure(self.theirs, self.unit),
            "ratio": "" if self.ratio is None else f"{self.ratio:.3f}",
            "bar": "" if self.bar is None else str(self.bar),
            "met": met,
            "note": self.note,
        }

    def record(self) -> Record:
        """What is written to the JSON file."""
        bar = None if self.bar is None else str(self.bar)
        return asdict(self) | {"bar": bar, "met": self.met}


def faster(what: str, ours: float, theirs: float, bar: Bar | None = None) -> Row:
    """Times in seconds; the ratio says how many times as fast ours is."""
    return Row(what, ours * 1e3, theirs * 1e3, "ms", theirs / ours, bar)


def compared(
    what: str, ours: float, theirs: float, unit: str = "", bar: Bar | None = None
) -> Row:
    """Figures of which less is better; the ratio is ours over theirs."""
    return Row(what, ours, theirs, unit, ours / theirs, bar)


def noted(row: Row, note: str) -> Row:
    """The same row with a note."""
    return replace(row, note=note)


def skipped(what: str, why: object) -> Row:
    """A row that could not be measured."""
    return Row(what, note=f"skipped: {why}")


def say(text: str) -> None:
    """One line on stderr about what is going on."""
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def show(title: str, lines: Sequence[Line]) -> None:
    """Prints the rows as one table, full width where the output is not a terminal."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in lines[0].cells() if lines else ():
        prose = column in ("what", "note", "layer")
        table.add_column(column, justify="left" if prose else "right")
    for line in lines:
        table.add_row(*line.cells().values())
    console.print(table)


def entry(lines: Sequence[Line], seconds: float) -> Record:
    """The rows of a benchmark with the machine they were measured on."""
    rows = [line.record() for line in lines]
    return {"machine": machine(), "seconds": round(seconds, 1), "rows": rows}


def write(content: Record, path: Path) -> None:
    """Writes JSON beside ``path`` and renames it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=True)
        temporary.write_text(text + "\n", encoding="utf-8")


def source() -> Record:
    """Which code runs, and since when; files may change while a long run goes on."""
    changed = _git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD") or "unknown",
        "changed_files": [line[3:] for line in changed.splitlines()],
    }


def code_commit() -> str:
    """The last commit that changed the code which is measured."""
    return _git("log", "-1", "--format=%H", "--", "src", "benchmarks/*.py")


def _git(*arguments: str) -> str:
    root = Path(__file__).parent.parent
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.rstrip()


SOURCE = source()


def machine() -> Record:
    """Everything a figure depends on; the code as it was when the process started."""
    return {
        **SOURCE,
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads_used": 1,
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
    }


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    shown = f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return f"{shown} {unit}".rstrip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.processor()

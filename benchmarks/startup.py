"""How long ``gradsnap --help`` takes, beside an interpreter that does nothing."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.report import Bar, Row, noted
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting


def run(setting: Setting) -> Iterator[Row]:
    """The best of several, each in a process of its own."""
    calls = {
        "help": lambda: _run("-m", "gradsnap", "--help"),
        "nothing": lambda: _run("-c", ""),
        "torch": lambda: _run("-c", "import torch"),
    }
    best = best_interleaved(calls, setting.repeats(7))
    row = Row("seconds of gradsnap --help", ours=best["help"], bar=Bar("<", 0.5))
    others = f"python alone {best['nothing']:.2f} s, import torch {best['torch']:.2f} s"
    yield noted(row, others)


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)

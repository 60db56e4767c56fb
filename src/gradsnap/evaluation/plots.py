"""Curves of runs as pictures; needs the extra ``plots``."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from gradsnap.errors import InputError
from gradsnap.evaluation.runs import Run
from gradsnap.files import replacing

FORMATS = ("png", "svg", "pdf")


def plot_precision_at(runs: Sequence[Run], path: str | os.PathLike[str]) -> None:
    """Draws mean precision against the number of results, a line for each run.

    Args:
        runs: measured at the same N for all seeds.
        path: the picture's file, ending in png, svg or pdf.
    """
    curves = {run.name: (_points(run), _mean(run, "precision")) for run in runs}
    _draw(curves, ("results N", "precision at N"), path, log=True)


def plot_precision_recall(runs: Sequence[Run], path: str | os.PathLike[str]) -> None:
    """Draws mean precision against mean recall, a line for each run.

    Args:
        runs: measured at the same N for all seeds.
        path: the picture's file, ending in png, svg or pdf.
    """
    curves = {run.name: (_mean(run, "recall"), _mean(run, "precision")) for run in runs}
    _draw(curves, ("recall", "precision"), path, log=False)


def _points(run: Run) -> list[float]:
    return [float(n) for n in run.evaluations[0].points]


def _mean(run: Run, field: str) -> list[float]:
    """The curve averaged over seeds."""
    if len({evaluation.points for evaluation in run.evaluations}) > 1:
        raise InputError(f"{run.name} was measured at other points for each seed")
    curves = [getattr(evaluation, field) for evaluation in run.evaluations]
    return [fmean(values) for values in zip(*curves, strict=True)]


def _draw(
    curves: dict[str, tuple[list[float], list[float]]],
    axes: tuple[str, str],
    path: str | os.PathLike[str],
    log: bool,
) -> None:
    if not curves:
        raise InputError("there is no run to draw")
    kind = Path(path).suffix.lstrip(".")
    if kind not in FORMATS:
        raise InputError(f"a picture ends in .{', .'.join(FORMATS)}; got {path}")
    figure = _figure()
    plot = figure.add_subplot()
    for name, (across, up) in curves.items():
        plot.plot(across, up, label=name)
    plot.set_xlabel(axes[0])
    plot.set_ylabel(axes[1])
    plot.set_xscale("log" if log else "linear")
    plot.set_ylim(bottom=0)
    plot.grid(alpha=0.3)
    plot.legend()
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)


def _figure() -> Any:
    """A figure of its own, so that no global state of matplotlib is touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "pictures need matplotlib: pip install 'gradsnap[plots]'"
        ) from error
    return Figure(figsize=(6, 4), layout="constrained")

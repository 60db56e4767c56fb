"""Runs: a card with its figures, in files, side by side, and as curves."""

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradsnap.errors import FileFormatError, InputError
from gradsnap.evaluation.card import Difference, ProtocolCard
from gradsnap.evaluation.confidence import PairedTest, Spread, paired_test, spread
from gradsnap.evaluation.evaluation import Evaluation
from gradsnap.files import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "gradsnap-run-1"
PICTURES = ("png", "svg", "pdf")


@dataclass(frozen=True, eq=False)
class Run:
    """One method under one protocol, evaluated once for each seed."""

    name: str
    """What it is called in a table."""
    card: ProtocolCard
    evaluations: tuple[Evaluation, ...]
    """One for each seed of the card."""

    def __post_init__(self) -> None:
        if len(self.evaluations) != len(self.card.seeds):
            raise InputError(
                f"{self.name}: {len(self.evaluations)} evaluations for "
                f"{len(self.card.seeds)} seeds on the card"
            )
        wrong = [e.rules for e in self.evaluations if e.rules != self.card.rules]
        if wrong:
            raise InputError(
                f"{self.name}: evaluated as {wrong[0]}, but the card says "
                f"{self.card.rules}"
            )

    @property
    def spread(self) -> Spread:
        """MAP over the seeds."""
        return spread([evaluation.map for evaluation in self.evaluations])

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON; every query's figure among them."""
        return {
            "format": FORMAT,
            "name": self.name,
            "card": self.card.record(),
            "map": {
                "mean": self.spread.mean,
                "seeds": [evaluation.map for evaluation in self.evaluations],
            },
            "evaluations": [
                evaluation.record()
                | {"average_precisions": _nan_as_null(evaluation.average_precisions)}
                for evaluation in self.evaluations
            ],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the run as JSON, beside ``path`` and renamed into place."""
        text = json.dumps(self.record(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(Path(path), text + "\n")

    def save_curves(self, path: str | os.PathLike[str]) -> None:
        """Writes precision and recall at N as CSV, a row for each seed and N."""
        with replacing(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "seed", "n", "precision", "recall"])
            for seed, found in zip(self.card.seeds, self.evaluations, strict=True):
                for row in zip(
                    found.points, found.precision, found.recall, strict=True
                ):
                    writer.writerow([self.name, seed, *row])


def load_run(path: str | os.PathLike[str]) -> Run:
    """Reads a run written by ``Run.save``.

    Raises:
        InputError: there is no such file, or it cannot be read.
        FileFormatError: the file is truncated, changed or not a run.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if record.get("format") != FORMAT:
            raise FileFormatError(f"{path} is not a run written by Run.save")
        card = ProtocolCard.from_record(record["card"])
        found = [_read_evaluation(one, card) for one in record["evaluations"]]
        return Run(record["name"], card, tuple(found))
    except OSError as error:
        raise InputError(
            f"there is no file {path} to read ({error.strerror})"
        ) from error
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is truncated or changed: {error!r}") from error


def _read_evaluation(record: dict[str, Any], card: ProtocolCard) -> Evaluation:
    values = [float("nan") if v is None else v for v in record["average_precisions"]]
    return Evaluation(
        rules=card.rules,
        average_precisions=torch.tensor(values, dtype=torch.float64),
        points=tuple(record["points"]),
        precision=tuple(record["precision"]),
        recall=tuple(record["recall"]),
        without_hit=record["queries_without_hit"],
        ndcg=record["ndcg"],
        radius_precision=record["radius_2_precision"],
    )


def _nan_as_null(values: Tensor) -> list[float | None]:
    """Figures (q,) with None for NaN, which JSON has no word for."""
    return [None if value != value else value for value in values.tolist()]


@dataclass(frozen=True)
class ComparedRun:
    """One run beside the first."""

    name: str
    spread: Spread
    differences: tuple[Difference, ...]
    """What its card does not share with the first; empty unless allowed."""
    against_first: PairedTest | None
    """This run less the first on the same queries; None where there are no such."""


@dataclass(frozen=True)
class Comparison:
    """Runs in the order given."""

    runs: tuple[ComparedRun, ...]

    def __str__(self) -> str:
        width = max(len(run.name) for run in self.runs)
        lines = []
        for run in self.runs:
            test = "" if run.against_first is None else f"  {run.against_first}"
            lines.append(f"{run.name:{width}}  MAP {run.spread}{test}")
            lines += [f"{'':{width}}  ! differs in {d}" for d in run.differences]
        return "\n".join(lines)


def compare(runs: Sequence[Run], *, allow_differences: bool = False) -> Comparison:
    """Puts runs beside the first, with a paired test where queries are the same.

    Args:
        runs: at least one.
        allow_differences: compare although cards differ; the comparison then says in
            what, with every run.

    Raises:
        InputError: cards differ in what a figure means, and that was not allowed.
    """
    if not runs:
        raise InputError("there is nothing to compare")
    first = runs[0]
    unlike = {run.name: first.card.differences(run.card) for run in runs[1:]}
    said = [f"{name} in {d}" for name, found in unlike.items() for d in found]
    if said and not allow_differences:
        raise InputError(
            f"these runs answer different questions. Beside {first.name} differ: "
            f"{'; '.join(said)}. Run them under one protocol, or allow differences"
        )
    return Comparison(tuple(_compare_with(first, run) for run in runs))


def _compare_with(first: Run, run: Run) -> ComparedRun:
    differences = first.card.differences(run.card)
    test = None
    if run is not first and not differences:
        ours = torch.cat([e.average_precisions for e in run.evaluations])
        theirs = torch.cat([e.average_precisions for e in first.evaluations])
        test = paired_test(ours, theirs)
    return ComparedRun(run.name, run.spread, differences, test)


def plot_precision_at(runs: Sequence[Run], path: str | os.PathLike[str]) -> None:
    """Draws mean precision against the number of results, a line for each run.

    Args:
        runs: measured at the same N for all seeds.
        path: the picture's file, ending in png, svg or pdf.
    """
    _draw(runs, ("points", "precision"), ("results N", "precision at N"), path)


def plot_precision_recall(runs: Sequence[Run], path: str | os.PathLike[str]) -> None:
    """Draws mean precision against mean recall, a line for each run.

    Args:
        runs: measured at the same N for all seeds.
        path: the picture's file, ending in png, svg or pdf.
    """
    _draw(runs, ("recall", "precision"), ("recall", "precision"), path)


def _draw(
    runs: Sequence[Run],
    fields: tuple[str, str],
    titles: tuple[str, str],
    path: str | os.PathLike[str],
) -> None:
    """A line for each run: one field of its evaluations across, the other up."""
    if not runs:
        raise InputError("there is no run to draw")
    kind = Path(path).suffix.lstrip(".")
    if kind not in PICTURES:
        raise InputError(f"a picture ends in .{', .'.join(PICTURES)}; got {path}")
    figure = _figure()
    axes = figure.add_subplot()
    for run in runs:
        axes.plot(*(_curve(run, field) for field in fields), label=run.name)
    axes.set_xlabel(titles[0])
    axes.set_ylabel(titles[1])
    axes.set_xscale("log" if fields[0] == "points" else "linear")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)


def _curve(run: Run, field: str) -> list[float]:
    """Points, precision or recall, averaged over seeds."""
    if len({evaluation.points for evaluation in run.evaluations}) > 1:
        raise InputError(f"{run.name} was measured at other points for each seed")
    curves = [getattr(evaluation, field) for evaluation in run.evaluations]
    return [fmean(values) for values in zip(*curves, strict=True)]


def _figure() -> "Figure":
    """A figure of its own, so that no global state of matplotlib is touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "pictures need matplotlib: pip install 'gradsnap[plots]'"
        ) from error
    return Figure(figsize=(6, 4), layout="constrained")

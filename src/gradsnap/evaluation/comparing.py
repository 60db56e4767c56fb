"""Runs side by side, unless their cards answer different questions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradsnap.errors import InputError
from gradsnap.evaluation.card import Difference
from gradsnap.evaluation.confidence import PairedTest, Spread, paired_test
from gradsnap.evaluation.runs import Run


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
    return Comparison(tuple(_beside(first, run) for run in runs))


def _beside(first: Run, run: Run) -> ComparedRun:
    differences = first.card.differences(run.card)
    test = None
    if run is not first and not differences:
        ours = torch.cat([e.average_precisions for e in run.evaluations])
        theirs = torch.cat([e.average_precisions for e in first.evaluations])
        test = paired_test(ours, theirs)
    return ComparedRun(run.name, run.spread, differences, test)

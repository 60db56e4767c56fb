"""Runs an experiment from its plan to its files."""

from dataclasses import dataclass, field
from pathlib import Path

from gradsnap.experiments.bench import Bench
from gradsnap.experiments.jobs import carry_out
from gradsnap.experiments.plan import Experiment, Plan, Request
from gradsnap.experiments.results import Cell, Result
from gradsnap.experiments.writing import write_result


@dataclass(frozen=True)
class Reproduction:
    """One experiment on one bench, written to a folder after each of its jobs."""

    experiment: Experiment
    bench: Bench
    request: Request
    folder: Path
    cells: list[Cell] = field(default_factory=list)

    @property
    def stem(self) -> str:
        """Name of the files, without their endings."""
        if not self.experiment.trains:
            return self.experiment.name
        trunk = self.bench.named_trunk[0]
        quick = "-quick" if self.bench.quick else ""
        return f"{self.experiment.name}-{self.bench.source.slug}-{trunk}{quick}"

    def run(self) -> Result:
        """Does what is not in the cache yet, and writes the result."""
        plan = self.experiment.plan(self.bench, self.request)

        def keep(cells: list[Cell]) -> None:
            self.cells.extend(cells)
            write_result(self._result(plan, finished=False), self.folder, self.stem)

        carry_out(plan.jobs, self.experiment.name, keep)
        result = self._result(plan, finished=True)
        write_result(result, self.folder, self.stem)
        return result

    def _result(self, plan: Plan, finished: bool) -> Result:
        one = self.experiment
        where = f" on {self.bench.source.title}" if one.trains else ""
        quick = " (quick: these figures mean little)" if self.bench.quick else ""
        return Result(
            one.name,
            f"{one.name}{where}: {one.summary}{quick}",
            one.label,
            self.bench.source.title if plan.card else "",
            [*self.cells, *plan.cells],
            plan.axes,
            plan.card,
            plan.notes,
            plan.choices,
            finished,
        )

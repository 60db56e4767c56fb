"""Study over regimes: who ranks best by codes, from 4 bits to 64, three seeds each.

A cell is data x layout; a line of it is a method. Its rate and strength are those whose
codes rank best on the validation part of seed 0, never on the queries. Every seed draws
its own split, weights and batches, the same for all methods, so that methods can be
compared seed by seed. Finished runs are kept, results and page are written after every
cell: an interrupted study goes on where it stopped. A row whose settings are those of a
row in ``results/study.json`` is taken from there, on whatever machine that was made. To
run all anew, remove that file and the cache.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.learning import CACHE
from benchmarks.study_cells import METHODS, TASKS, Task, cells
from benchmarks.study_page import write_page
from benchmarks.study_rows import StudyRow, row_of
from benchmarks.vectors import MissingData, Setting
from gradsnap.experiments.cache import RunCache, name_of
from gradsnap.experiments.contenders import Choice, Contender
from gradsnap.experiments.layouts import Layout
from gradsnap.experiments.runs import Outcome, outcome
from gradsnap.training import TrainingConfig, make_config
from gradsnap.training.beside import once_more

FOLDER = CACHE.parent / "study"
SEEDS = 3
COMMON: dict[str, dict[str, Any]] = {
    "network": {"dim": 64},
    "loss": {"name": "supcon"},
    "layer": {"warmup": 0.25},
    "run": {
        "steps": 400,
        "validate_every": 100,
        "checkpoint_every": 400,
        "score_queries": False,  # scored by the study itself, with precision
    },
}
"""Settings of every run; a task's own come over them."""


def run(setting: Setting) -> Iterator[StudyRow | report.Row]:
    """Every method in every cell; results and page after each cell."""
    rows = {} if setting.quick else known_rows()
    for task in TASKS[:1] if setting.quick else TASKS:
        try:
            file = task.file(setting, FOLDER)
        except MissingData as missing:
            yield report.skipped(task.name, missing)
            continue
        for layout in task.layouts[:1] if setting.quick else task.layouts:
            for row in Cell(task, layout, file, setting).rows(rows):
                rows[row.key] = row
                yield row
            if not setting.quick:
                keep(rows)


def opened(
    places: Sequence[tuple[str, Layout]], setting: Setting
) -> Iterator["Cell | report.Row"]:
    """Cells by data and layout; a skipped row where data are missing."""
    tasks = {task.name: task for task in TASKS}
    for name, layout in places[:1] if setting.quick else places:
        try:
            file = tasks[name].file(setting, FOLDER)
        except MissingData as missing:
            yield report.skipped(f"{name}, {layout}", missing)
            continue
        yield Cell(tasks[name], layout, file, setting)


def known_rows() -> dict[str, StudyRow]:
    """The rows of the last results, by what they depend on."""
    path = report.RESULTS / "study.json"
    if not path.is_file():
        return {}
    records = json.loads(path.read_text(encoding="utf-8"))["rows"]
    rows = [StudyRow(**record) for record in records if "code_maps" in record]
    return {row.key: row for row in rows}


def keep(rows: dict[str, StudyRow]) -> None:
    """Writes what is known so far, in order: the results and the page."""
    keys = [
        row_key(task, layout, method) for task, layout in cells() for method in METHODS
    ]
    known = [rows[key] for key in keys if key in rows]
    content = report.entry(known, sum(row.seconds for row in known))
    report.write(content, report.RESULTS / "study.json")
    write_page(content["rows"])


def row_key(task: Task, layout: Layout, method: Contender) -> str:
    """A digest of all that a row depends on, but for the code."""
    about = {
        "data": task.name,
        "settings": settings_of(task),
        "layout": str(layout),
        "method": asdict(replace(method, rates=task.rates)),
        "seeds": SEEDS,
    }
    return name_of(about | ({"once more": True} if task.once_more else {}))


def settings_of(task: Task) -> dict[str, dict[str, Any]]:
    """The common settings, by section, with the task's own over them."""
    return {
        name: {**COMMON.get(name, {}), **task.settings.get(name, {})}
        for name in {**COMMON, **task.settings}
    }


@dataclass(frozen=True)
class Cell:
    """One data set at one layout."""

    task: Task
    layout: Layout
    file: Path
    setting: Setting

    def rows(self, known: dict[str, StudyRow]) -> Iterator[StudyRow]:
        """A row for each method; those that are known are not run again."""
        for method in (replace(one, rates=self.task.rates) for one in METHODS):
            key = row_key(self.task, self.layout, method)
            yield known[key] if key in known else self.row(method, key)

    def row(self, method: Contender, key: str) -> StudyRow:
        """The row of a method: what suits it is chosen, then run with every seed."""
        best = method.choices()[0] if self.setting.quick else self.chosen(method)
        seeds = range(1 if self.setting.quick else SEEDS)
        runs = [self.finished(self.config(method, best, seed)) for seed in seeds]
        return row_of(key, self.task.name, self.layout, method, best, runs)

    def chosen(self, method: Contender) -> Choice:
        """What ranks best on the validation part of seed 0."""
        search = method.search()
        choice = next(search)
        while True:
            try:
                found = self.outcome(method, choice, 0)
                choice = search.send(found.validation_map)
            except StopIteration as end:
                best: Choice = end.value
                return best

    def outcome(self, method: Contender, choice: Choice, seed: int) -> Outcome:
        """The figures of one run, with a line about it."""
        config = self.config(method, choice, seed)
        found = outcome(config, RunCache(FOLDER / "runs"))
        where = f"{self.task.name}, {self.layout}, {method.name}, {choice}, seed {seed}"
        report.say(
            f"{where}: validation {found.validation_map:.3f} ({found.seconds:.1f} s)"
        )
        return found

    def finished(self, config: TrainingConfig, folder: str = "runs") -> Outcome:
        """The figures of one run, as it is when nothing is left to choose.

        What the validation part said is said of the run that it took no part in.
        """
        cache = RunCache(FOLDER / folder)
        first = outcome(config, cache)
        if not self.task.once_more:
            return first
        if first.step is None:
            raise RuntimeError(f"{cache.folder} has runs without their step: remove it")
        again = outcome(once_more(config, first.step, first.fitted_to), cache)
        return replace(
            again,
            validation_map=first.validation_map,
            fitted_to=first.fitted_to,
            seconds=first.seconds + again.seconds,
        )

    def config(self, method: Contender, choice: Choice, seed: int) -> TrainingConfig:
        """The configuration of one run."""
        return make_config(
            settings_of(self.task),
            [
                f"data.source={self.file}",
                f"data.split_seed={seed}",
                f"run.seed={seed}",
                f"coder.bits={self.layout.bits}",
                f"coder.codebook_size={self.layout.codebook_size}",
                *method.overrides(choice),
                *(["run.steps=8"] if self.setting.quick else []),
            ],
        )

    def known(self) -> dict[str, StudyRow]:
        """The rows of this cell in the last results, by method."""
        here = self.task.name, str(self.layout)
        rows = known_rows().values()
        return {row.method: row for row in rows if (row.data, row.layout) == here}

    def as_chosen(self, row: StudyRow, seed: int) -> TrainingConfig:
        """The configuration of a known row of this cell, with any seed."""
        method = next(one for one in METHODS if one.name == row.method)
        return self.config(method, Choice(row.rate, row.strength), seed)

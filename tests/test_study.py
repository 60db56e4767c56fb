"""The study's pure parts: choices, means, the page, and the cache of its runs."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import study
from benchmarks.study import COMMON, Cell
from benchmarks.study_cells import (
    LAYOUTS,
    METHODS,
    PLAIN,
    RECIPE,
    SHARE,
    SNAPPED,
    TASKS,
    Labelled,
    Task,
)
from benchmarks.study_cells import cells as cells_of_study
from benchmarks.study_page import (
    BLOCKS,
    DOCS,
    best_of,
    cells_of,
    gain_of,
    gains,
    is_near_best,
    missing,
    recipe,
    renewed,
    summary,
    verdicts,
)
from benchmarks.study_picture import FLOATS, lines_of, picture_of
from benchmarks.study_rows import CellRows, StudyRow, kept_row, row_of
from benchmarks.vectors import MissingData, Setting
from gradsnap.experiments import runs as study_runs
from gradsnap.experiments.cache import RunCache, name_of
from gradsnap.experiments.means import Mean
from gradsnap.experiments.runs import Outcome, about_run, outcome
from gradsnap.layers import LAYERS
from gradsnap.training import TrainingConfig
from gradsnap.training.beside import once_more
from gradsnap.training.defaults import settled

MIXED, _ = RECIPE["pq"]


def a_row(method: str, bits: int, code_maps: list[float]) -> StudyRow:
    return StudyRow(
        data="digits",
        layout=next(str(one) for one in LAYOUTS if one.bits == bits),
        bits=bits,
        method=method,
        rate=0.01,
        strength=None,
        code_maps=code_maps,
        float_maps=[0.95, 0.94, 0.96],
        precisions=[0.9, 0.91, 0.92],
        float_precisions=[0.9, 0.9, 0.9],
        fitted_to={"none": 2, "database": 1},
        seconds=9.0,
        key=f"{method} {bits}",
    )


@pytest.fixture
def cells() -> list[CellRows]:
    """Scarce codes, where mixing wins; then codes to spare, where it loses."""
    rows = [
        a_row(PLAIN, 8, [0.80, 0.79, 0.81]),
        a_row(MIXED, 8, [0.90, 0.89, 0.92]),
        a_row(PLAIN, 32, [0.96, 0.95, 0.97]),
        a_row(MIXED, 32, [0.94, 0.93, 0.951]),
    ]
    return cells_of([one.record() for one in rows] + [{"what": "skipped data"}])


def test_every_method_is_a_configuration_with_its_own_layer(tmp_path: Path) -> None:
    cell = Cell(TASKS[0], LAYOUTS[0], tmp_path / "digits.npz", Setting())
    for method in METHODS:
        for choice in method.choices():
            config = cell.config(method, choice, seed=2)
            assert config.layer.name in LAYERS
            assert (config.coder.bits, config.coder.codebook_size) == (4, 4)
            assert (config.run.seed, config.data.split_seed) == (2, 2)
            assert config.optimizer.rate == choice.rate
            assert config.network.dim == 32
            assert config.network.options == {"hidden": [128]}
            assert config.run.steps == COMMON["run"]["steps"]
            assert choice.strength in {
                None,
                config.loss.mixture,
                *config.layer.options.values(),
                *config.regularizer.options.values(),
            }


def test_layouts_go_from_half_a_byte_to_eight() -> None:
    assert [one.bits for one in LAYOUTS] == [4, 4, 8, 8, 16, 32, 64]
    assert {one for task in TASKS for one in task.layouts} == set(LAYOUTS)


def test_vectors_are_made_once(tmp_path: Path) -> None:
    path = TASKS[0].file(Setting(), tmp_path)
    with np.load(path) as arrays:
        assert arrays["vectors"].shape == (1797, 64)
        assert arrays["labels"].shape == (1797,)
    before = path.stat().st_mtime_ns
    assert TASKS[0].file(Setting(), tmp_path).stat().st_mtime_ns == before


@pytest.mark.parametrize("task", TASKS[1:], ids=lambda task: task.name)
def test_absent_data_are_named(task: Task, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="data folder"):
        task.file(Setting(data=tmp_path), tmp_path / "cache")


def test_a_mean_of_gains_is_taken_seed_by_seed() -> None:
    gain = Mean.of_gain([0.5, 0.7, 0.9], [0.4, 0.6, 0.8])
    assert gain.value == pytest.approx(0.1)
    assert gain.error == pytest.approx(0.0, abs=1e-9)
    assert math.isnan(Mean.of([0.5]).error)
    assert str(Mean.of([0.25, 0.75])) == "0.500 ± 0.250"


def test_a_row_counts_where_codebooks_came_from() -> None:
    run = Outcome(0.9, 0.8, 0.95, 0.85, 0.9, "none", 3.0)
    runs = [run, replace(run, fitted_to="database"), run]
    row = row_of("k", "digits", LAYOUTS[0], METHODS[0], METHODS[0].choices()[0], runs)
    assert row.fitted_to == {"none": 2, "database": 1}
    assert row.code_maps == [0.8] * 3
    assert row.seconds == 9
    assert StudyRow(**row.record()) == row


def test_who_wins_and_who_is_as_good(cells: list[CellRows]) -> None:
    scarce, plenty = cells
    assert best_of(scarce).method == MIXED
    assert best_of(plenty).method == PLAIN
    assert gain_of(scarce, MIXED).value == pytest.approx(0.31 / 3)
    assert not is_near_best(plenty, MIXED)
    assert is_near_best(plenty, PLAIN)


def test_the_page_tells_gains_and_losses(cells: list[CellRows]) -> None:
    assert "in 1 of 2 cells: digits 2 × 16." in verdicts(cells)
    assert f"| {MIXED} | 1 of 1 | 1 | 1 of 1 | 1 | 1 of 2 |" in verdicts(cells)
    assert f"| {MIXED} | 0.903 ± 0.009 | 0.103 ± 0.003 | 31.0 |" in summary(cells)
    won, lost = "**+0.103** ± 0.003", "**−0.020** ± 0.000"
    assert f"| {MIXED} | {won} | {lost} |" in gains(cells)
    assert f"| {PLAIN} | {won} | {lost} |" in recipe(cells)
    assert f"| {MIXED} | – | – |" in recipe(cells)
    assert "within one standard error of it, in 1 of 2 cells" in verdicts(cells)
    assert "digits at 2 × 4, 1 × 16;" in missing(cells)


def test_the_recipe_has_a_rotation_where_codewords_are_fewer_than_classes() -> None:
    names = {(task.name, str(one)): task.recipes(one) for task, one in cells_of_study()}
    rotated = {cell for cell, own in names.items() if own[:2] == RECIPE["opq"]}
    assert ("digits", "2 × 4") in rotated
    assert ("tiny-imagenet, 50 classes", "2 × 16") in rotated
    assert not rotated & {("digits", "1 × 16"), ("digits", "2 × 16")}


def test_snapped_codes_are_a_choice_where_codes_are_scarce_only() -> None:
    names = {(task.name, str(one)): task.recipes(one) for task, one in cells_of_study()}
    assert SNAPPED in names["cifar10 outputs", "2 × 4"]
    assert SNAPPED not in names["cifar10 outputs", "2 × 16"]
    assert SNAPPED == "snapping through codes"


def test_the_validation_part_keeps_a_row_seed_by_seed() -> None:
    own = replace(a_row("own", 8, [0.5, 0.6, 0.7]), validations=[0.5, 0.5, 0.5])
    other = replace(a_row("other", 8, [0.9, 0.1, 0.1]), validations=[0.6, 0.4, 0.5005])
    kept = kept_row("kept", [own, other])
    assert kept is not None
    assert kept.code_maps == [0.9, 0.6, 0.7]  # the third is not worth a change
    assert kept.fitted_to == {"other": 1, "own": 2}
    assert kept_row("kept", [own, replace(other, validations=[])]) is None


def test_blocks_are_replaced_and_the_rest_stays() -> None:
    page = "typed\n<!-- study:gains -->\nold\n<!-- /study:gains -->\ntyped too"
    once = renewed(page, {"gains": r"| \1 |"})
    assert once.startswith("typed\n")
    assert once.endswith("\ntyped too")
    assert "old" not in once
    assert renewed(once, {"gains": r"| \1 |"}) == once
    with pytest.raises(ValueError, match="no marks <!-- study:tables -->"):
        renewed(page, {"tables": ""})


@pytest.mark.skipif(not DOCS.is_dir(), reason="installed without the documentation")
def test_the_page_has_a_place_for_every_block() -> None:
    page = (DOCS / "study.md").read_text(encoding="utf-8")
    renewed(page, dict.fromkeys(BLOCKS, ""))


def test_the_picture_has_a_line_for_each_method(cells: list[CellRows]) -> None:
    lines = lines_of(cells, "digits")
    assert [line.name for line in lines] == [PLAIN, FLOATS, MIXED]
    assert [line.look.quiet for line in lines] == [False, False, True]
    assert [bits for bits, _ in lines[0].points] == [8, 32]
    drawn = picture_of(cells)
    assert drawn.count('class="line') == 2 * len(lines)
    assert all(f">{bits}</text>" in drawn for bits in (8, 32))


def test_a_finished_run_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Outcome(0.9, 0.8, 0.95, 0.85, 0.9, "none", 3.0)
    calls = iter([found])  # a second call would raise
    monkeypatch.setattr(study_runs, "_trained", lambda *_: next(calls))
    cell = Cell(TASKS[0], LAYOUTS[0], TASKS[0].file(Setting(), tmp_path), Setting())
    config = cell.config(METHODS[0], METHODS[0].choices()[0], seed=0)
    assert outcome(config, RunCache(tmp_path / "runs")) == found
    assert outcome(config, RunCache(tmp_path / "runs")) == found
    assert [one.name for one in (tmp_path / "runs").iterdir()] == [
        f"{name_of(about_run(config))}.json"
    ]


@pytest.mark.parametrize("settings", [TASKS[0].settings, {"data": SHARE}])
def test_a_run_is_made_once_more_where_its_validation_part_is_searched(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = replace(TASKS[0], settings=settings)
    cell = Cell(task, LAYOUTS[2], task.file(Setting(), tmp_path), Setting())
    config = cell.config(METHODS[0], METHODS[0].choices()[0], seed=0)
    assert task.once_more == settled(config).split.validates_on_training
    runs = []

    def trained(config: TrainingConfig, _: object) -> Outcome:
        runs.append(config)
        figure = 0.1 * len(runs)
        return Outcome(figure, figure, 0.5, 0.5, 0.5, "train", 3.0, step=300)

    monkeypatch.setattr(study_runs, "_trained", trained)
    monkeypatch.setattr(study, "FOLDER", tmp_path)
    found = cell.finished(config)
    assert len(runs) == 1 + task.once_more
    assert found.code_map == 0.1 * len(runs)
    assert (found.validation_map, found.fitted_to) == (0.1, "train")
    last = runs[-1]
    share, steps = (0.0, 300) if task.once_more else (0.3, 400)
    assert (last.data.validation, last.run.steps) == (share, steps)
    assert last.coder.refit == ("train" if task.once_more else "best")


def test_a_run_is_named_by_its_vectors_not_by_their_place(tmp_path: Path) -> None:
    def named(folder: str, value: float) -> str:
        vectors = np.full((4, 2), value, dtype=np.float32)
        task = Task("made up", lambda _: Labelled(vectors, np.arange(4)))
        file = task.file(Setting(), tmp_path / folder)
        cell = Cell(task, LAYOUTS[0], file, Setting())
        config = cell.config(METHODS[0], METHODS[0].choices()[0], seed=0)
        return name_of(about_run(config))

    assert named("a", 1.0) == named("b", 1.0)
    assert named("a", 1.0) != named("c", 2.0)


def test_a_short_run_gives_every_figure(tmp_path: Path) -> None:
    cell = Cell(
        TASKS[0], LAYOUTS[0], TASKS[0].file(Setting(), tmp_path), Setting(quick=True)
    )
    snapping = next(one for one in METHODS if one.name == "snapping")
    config = cell.config(snapping, snapping.choices()[0], seed=0)
    again = outcome(once_more(config, 4, "database"), RunCache(tmp_path / "runs"))
    assert (again.step, again.fitted_to) == (4, "database")
    assert again.validation_map == 0
    found = asdict(outcome(config, RunCache(tmp_path / "runs")))
    assert found.pop("fitted_to") in ("none", "train", "database")
    assert len(found.pop("points")) == len(found.pop("precisions")) > 5
    assert sum(found.pop("conformity")) > 0
    assert all(value > 0 for value in found.values())

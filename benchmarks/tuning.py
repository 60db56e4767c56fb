"""Tune within minutes: the test MAP of its choice beside the best of its grid.

The data are outputs of a frozen network for twenty classes of photos, none of which the
defaults were found on. ``gradsnap tune`` chooses on the validation part; then every
point of its grid is trained at full length and scored on the queries, which it never
saw. The best of so many test figures is a little too good, so that a gap of zero is not
to be expected. Runs are kept: an interrupted benchmark goes on.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.learning import CACHE
from benchmarks.report import Bar, Row, say, skipped
from benchmarks.study_cells import read_tiny_imagenet
from benchmarks.vectors import MissingData, Setting
from gradsnap.experiments.cache import RunCache
from gradsnap.experiments.runs import about_run
from gradsnap.training import TrainingConfig, make_config, run_training
from gradsnap.training.grid import Trial
from gradsnap.training.new_tuner import new_tuner
from gradsnap.training.tuning import Tuner

FOLDER = CACHE.parent / "tuning"
BITS = 8
MINUTES = 5.0
"""On one thread; a user has ten, on two cores."""
STEPS = 400
"""Of a full run, so that every point of the grid can be run in a quarter of an hour."""
CLASSES = range(60, 80)
"""Outside of the study's first fifty."""
BAR = Bar("≤", 0.01)


def run(setting: Setting) -> Iterator[Row]:
    """The gap between the choice and the best of the grid, on the test queries."""
    try:
        path = _vectors(setting)
    except MissingData as missing:
        yield skipped("photos of twenty classes", missing)
        return
    folder = FOLDER / ("quick" if setting.quick else "search")
    steps = 8 if setting.quick else STEPS
    words = [f"data.source={path}", f"coder.bits={BITS}", f"run.steps={steps}"]
    tuner = new_tuner(words, 0.5 if setting.quick else MINUTES, folder)
    tuner.tell = lambda now: say(f"tuning: {now.used:.0f} s, {now.now}")
    tuner.run()
    chosen = tuner.choice()
    points = tuner.grid.trials(tuner.seed)[: 2 if setting.quick else None]
    ours = _test_map(tuner, chosen.trial, chosen.steps)
    maps = {one: _test_map(tuner, one, tuner.steps or chosen.steps) for one in points}
    best = max(maps, key=lambda one: maps[one])
    note = (
        f"chosen: {chosen.trial}, {chosen.steps} steps; best of {len(maps)}: {best}; "
        f"{sum(one > ours for one in maps.values())} points are above the choice"
    )
    what = f"twenty classes of photos, {BITS} bits, {tuner.budget / 60:g} minutes"
    theirs = maps[best]
    yield Row(what, ours, theirs, "MAP", max(0.0, theirs - ours), BAR, note=note)


def _vectors(setting: Setting) -> Path:
    """The outputs of these classes as a file."""
    path = FOLDER / "photos.npz"
    if not path.is_file():
        vectors, labels = read_tiny_imagenet(setting)
        own = np.isin(labels, CLASSES)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, vectors=vectors[own], labels=labels[own] - CLASSES.start)
    return path


def _test_map(tuner: Tuner, trial: Trial, steps: int) -> float:
    """MAP of the codes on the queries; kept."""
    own = (f"run.steps={steps}", f"run.seed={tuner.seed}")
    config = make_config({}, [*tuner.trials.base, *trial.settings, *own])
    cache = RunCache(FOLDER / "runs")
    figures = cache.figures(about_run(config), lambda: _trained(config))
    say(f"tuning: {trial}: test {figures['code_map']:.4f}")
    return float(figures["code_map"])


def _trained(config: TrainingConfig) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="gradsnap-tuning-") as name:
        folder = Path(name) / "model"
        run_training(config, folder)
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    figures: dict[str, float] = card["figures"]
    return figures

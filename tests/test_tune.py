"""``gradsnap tune``: what it tries, what it keeps, what it says."""

import itertools
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gradsnap.cli.app import app
from gradsnap.errors import InputError
from gradsnap.training import tuning
from gradsnap.training.grid import KINDS, Grid, Trial, layouts
from gradsnap.training.new_tuner import new_tuner
from gradsnap.training.run import run_training
from gradsnap.training.trials import Result, Trials
from gradsnap.training.tuning import Tuner
from gradsnap.training.watch import TrainingWatch
from tests.commands import said
from tests.parsed_html import Parsed
from tests.training_runs import clusters, config_for

RUNNER = CliRunner()
SHORT = ("run.steps=16", "run.batch_size=24", "data.validation=0.2", "network.dim=8")


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of few trials, each with one fit of its codebooks."""
    monkeypatch.setattr(tuning, "MOST_TRIALS", 3)
    monkeypatch.setattr(tuning, "OTHER_FINALISTS", 0)
    monkeypatch.setattr(tuning, "PROBE_STEPS", 2)
    monkeypatch.setattr("gradsnap.coders.quantizers.product.FITS", 1)


def tune(*arguments: object) -> str:
    return said("tune", *arguments)


class Scripted(Trials):
    """Trials that take a second for ten steps and rank as a function says."""

    def run(self, trial: Trial, steps: int, seed: int) -> Result:
        ran.append((trial, steps, seed))
        figure = ranks(trial) * (1 + 0.001 * seed)
        figure = kept.get((trial, steps, seed), figure)
        return Result(trial, steps, seed, figure, 0.9, "train", steps / 10, steps / 10)


ran: list[tuple[Trial, int, int]] = []
kept: dict[tuple[Trial, int, int], float] = {}
"""Figures of single runs, where a test gives them."""


GAINS = {"plain": 0.0, "snapping": 0.02, "codes": 0.05, "soft-codes": 0.1}


def ranks(trial: Trial) -> float:
    gain = GAINS[trial.layer]
    return 0.8 + gain + (0.01 if trial.rate == 0.01 else 0)


@pytest.fixture
def scripted() -> Tuner:
    ran.clear()
    kept.clear()
    grid = Grid(bits=8, sizes=[16, 4])
    return Tuner(Scripted([], Path(), ""), grid, budget=600, seed=0)


def test_layouts_divide_the_bits_and_leave_rows_for_each_codeword() -> None:
    assert layouts(32, 10_000) == [256, 16, 4]
    assert layouts(32, 500) == [16, 4]
    assert layouts(6, 500) == [4]


def test_the_grid_is_the_same_for_a_seed_and_has_every_point_once() -> None:
    grid = Grid(bits=8, sizes=[16, 4])
    points = grid.trials(3)
    assert points == grid.trials(3) != grid.trials(4)
    assert len({*points}) == len(points) == (1 + 2 + 4 + 3) * 3 * 3 * 2
    assert {one.layer for one in points[:5]} == {*KINDS}
    rates = [one.rate for one in points if one.layer == "plain"]
    assert len({*rates[:3]}) == 3, "the first ones differ in all they can"


def test_codebooks_never_outnumber_dimensions() -> None:
    points = Grid(bits=96, sizes=[4, 256]).trials(0)
    assert all(one.dim >= 96 // 2 for one in points if one.codebook_size == 4)
    with pytest.raises(InputError, match=r"need more dimensions than 128"):
        Grid(bits=512, sizes=[4]).trials(0)


def test_halving_keeps_to_the_budget_and_finds_the_best(scripted: Tuner) -> None:
    scripted.run()
    assert scripted.used <= 600
    best = scripted.best()
    assert best is not None
    assert (best.trial.layer, best.trial.rate) == ("soft-codes", 0.01)
    lengths = [steps for _, steps, _ in ran[2:]]
    assert lengths == sorted(lengths), "from short runs to long ones"
    assert len({*lengths}) == 3
    full = [(one.layer, seed) for one, steps, seed in ran if steps == scripted.steps]
    assert {layer for layer, _ in full} == {*KINDS}
    assert {seed for layer, seed in full if layer == "plain"} == {0, 1}
    second = [one for one, steps, _ in ran if steps == lengths[0] * 8 // 3]
    first = second[0]
    moved = [one.on_the_ground_of(first) for one in second[:4]]
    assert moved == second[:4], "each layer with the best one's codebooks and rate"
    assert scripted.verdict().startswith("Training for the codes pays: plain 0.810")


def test_a_lucky_seed_is_found_out_and_a_short_run_may_win(scripted: Tuner) -> None:
    lucky, short = (Trial("plain", rate, 32, 16) for rate in (0.001, 0.003))
    for trial, steps, seed, figure in (
        (lucky, 60, 0, 0.99),
        (lucky, 60, 1, 0.5),  # as its record says
        (short, 20, 0, 0.9),
        (short, 20, 1, 0.9),
    ):
        kept[trial, steps, seed] = figure
    scripted._probe()
    scripted._try(lucky, 60, 0)
    scripted._try(short, 20, 0)
    scripted._confirm()
    best = scripted.choice()
    assert (best.trial, best.steps, len(best.results)) == (short, 20, 2)
    assert "run.steps=20" in scripted.settings(best)


def test_what_a_short_budget_leaves_out_is_said(scripted: Tuner) -> None:
    scripted.budget, scripted.steps = 30, 200
    scripted.run()
    assert scripted.used <= 30
    assert "whether training for the codes pays is not known" in scripted.verdict()
    assert "a full run of codes" in scripted.untried()


def test_a_budget_too_short_for_one_run(scripted: Tuner) -> None:
    scripted.budget = 12
    with pytest.raises(InputError, match=r"--minutes 0.2 is too short: one run of 200"):
        scripted.run()


def test_a_full_run_always_has_its_time(scripted: Tuner) -> None:
    for seconds in range(26, 60, 6):
        scripted.budget, scripted.steps = seconds, 200
        scripted.results.clear()
        scripted.probes.clear()
        assert 200 in {one.steps for one in scripted.run().summaries()}
        assert scripted.used <= seconds


def test_when_all_fail_that_is_said(scripted: Tuner, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "ranks", lambda _: 0.0)
    with pytest.raises(InputError, match="no run came to its end"):
        scripted.run().choice()


@pytest.mark.parametrize("gain", [0.0, 0.001, -0.1])
def test_says_when_snapping_does_not_pay(
    scripted: Tuner, monkeypatch: pytest.MonkeyPatch, gain: float
) -> None:
    def flat(trial: Trial) -> float:
        return 0.8 + gain * (trial.layer != "plain")

    monkeypatch.setitem(globals(), "ranks", flat)
    assert (
        scripted.run().verdict().startswith("Training for the codes does not pay here")
    )


@pytest.mark.usefixtures("_few")
def test_tunes_resumes_and_prints_a_command_that_runs(tmp_path, monkeypatch) -> None:
    source = clusters(tmp_path / "some vectors.npz")
    command = [source, *SHORT, "--bits", 4, "--minutes", 5, "--out", tmp_path / "t"]
    with monkeypatch.context() as patch:
        patch.setattr(TrainingWatch, "_test_figures", scores_nothing)
        found = json.loads(tune(*command, "--json"))
    assert found["untried"][0].endswith(" of 60 settings of the grid")
    assert len([*(tmp_path / "t" / "trials").iterdir()]) >= 2 + 3 + 3 + 3
    page = Parsed((tmp_path / "t" / "index.html").read_text())
    assert {found["command"], found["verdict"]} <= {*page.texts}

    with monkeypatch.context() as patch:
        patch.setattr("gradsnap.training.trials.run_training", None)
        assert json.loads(tune(*command, "--json")) == found, "all records were there"
        assert found["command"] in tune(*command)
        assert tune(*command, "--quiet") == ""

    words = shlex.split(found["command"])
    assert words[:3] == ["gradsnap", "train", str(source)]
    words[words.index("model")] = str(tmp_path / "model")
    card = json.loads(RUNNER.invoke(app, [*words[1:], "--json"]).stdout)
    assert card["layer"] == found["choice"][0].removeprefix("layer.name=")
    assert "code_map" in card["figures"], "the queries are scored now"


def scores_nothing(watch: TrainingWatch) -> dict[str, float]:
    """In place of what scores the test queries."""
    assert not watch.config.run.score_queries
    return {}


@pytest.mark.slow
@pytest.mark.usefixtures("_few")
def test_an_interrupted_search_goes_on(tmp_path, monkeypatch) -> None:
    trained = itertools.count()

    def interrupted(*arguments: object, **options: object) -> object:
        if next(trained) == 3:
            raise KeyboardInterrupt
        return run_training(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("gradsnap.training.trials.run_training", interrupted)
    source = clusters(tmp_path / "v.npz")
    command = [str(source), *SHORT, "--bits", "4", "--out", str(tmp_path / "t")]
    stopped = RUNNER.invoke(app, ["tune", *command])
    assert stopped.exit_code == 130
    assert "the same command goes on" in stopped.output
    kept = {*(tmp_path / "t" / "trials").iterdir()}
    assert len(kept) == 3
    before = {path: path.stat().st_mtime_ns for path in kept}
    tune(*command)
    assert {path: path.stat().st_mtime_ns for path in kept} == before


def test_a_run_that_fails_does_not_end_the_search(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    words = [f"data.source={source}", "coder.bits=4", *SHORT, "optimizer.rate=1e30"]
    tuner = new_tuner(words, 1, tmp_path)
    trial = tuner.grid.trials(0)[0]
    failed = tuner.trials.run(trial, 4, 0)
    assert "numbers too large" in failed.error
    assert failed.code_map == 0
    assert not (tmp_path / "trials").exists(), "it is tried again next time"
    with pytest.raises(InputError, match="numbers too large"):
        tuner.run()  # where nothing can be trained, that is said at once


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["data.validation=0"], "tune needs a validation part"),
        (["layer.name=codes"], "tune chooses layer.name by itself"),
        (["coder.kind=itq"], "coder.kind is 'itq'"),
        (["--minutes", "0"], "--minutes must be more than 0, got 0"),
        (["run.stps=3"], "did you mean 'steps'"),
    ],
)
def test_refusals(tmp_path: Path, words: list[str], sentence: str) -> None:
    source = clusters(tmp_path / "v.npz")
    out = tmp_path / "t"
    assert sentence in tune(source, "--bits", 8, "--out", out, *words)
    assert not out.exists()


def test_other_data_under_the_same_name_make_other_records(tmp_path: Path) -> None:
    words = [f"data.source={tmp_path / 'v.npz'}", "coder.bits=4", *SHORT]
    labels = np.arange(80) % 4
    found = set()
    for scale in (1, 1, 2):
        rows = np.arange(320, dtype=np.float32).reshape(80, 4) * scale
        np.savez(tmp_path / "v.npz", vectors=rows, labels=labels)
        found.add(new_tuner(words, 1, tmp_path).trials.data)
    assert len(found) == 2


def test_data_that_cannot_be_tuned_on(tmp_path: Path) -> None:
    rows = np.zeros((6, 4), dtype=np.float32)
    np.save(tmp_path / "bare.npy", rows)
    np.savez(tmp_path / "few.npz", vectors=rows, labels=np.arange(6) // 2)
    more = ("--bits", 8, "--out", tmp_path / "t")
    assert "has no labels" in tune(tmp_path / "bare.npy", *more)
    assert "too small" in tune(tmp_path / "few.npz", *more)


def test_given_settings_are_not_chosen(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    own = ["optimizer.rate=0.02", "coder.codebook_size=4", "loss.name=triplet"]
    words = [f"data.source={source}", "coder.bits=4", *SHORT, *own]
    tuner = new_tuner(words, 1, tmp_path)
    points = tuner.grid.trials(0)
    assert {(one.rate, one.dim, one.codebook_size) for one in points} == {(0.02, 8, 4)}
    config = tuner.trials.config(points[0], 4, 0)
    assert config.loss.name == "triplet"
    assert not config.run.score_queries


@pytest.mark.usefixtures("_few")
def test_the_card_says_how_the_finished_codes_rank(tmp_path: Path) -> None:
    source = clusters(tmp_path / "v.npz")
    chosen = run_training(config_for(source), tmp_path / "a")
    given = run_training(config_for(source, "coder.refit=train"), tmp_path / "b")
    assert chosen is not None
    assert given is not None
    assert 0 < chosen.card["validation_code_map_finished"] <= 1
    assert given.card["validation_code_map_finished"] is None

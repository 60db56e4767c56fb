"""Cards, runs, comparisons, confidence and pictures."""

import csv
import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from gradsnap.data.protocols import PaperProtocol, Split
from gradsnap.errors import FileFormatError, InputError
from gradsnap.evaluation import (
    EmbeddingDistances,
    Evaluation,
    ProtocolCard,
    RankingRules,
    Run,
    bootstrap,
    compare,
    evaluate,
    load_run,
    paired_test,
    plot_precision_at,
    plot_precision_recall,
    spread,
)
from tests.conftest import gaussian

RULES = RankingRules(None, "relevant", "zero")
LABELS = torch.arange(80) % 4
SEEDS = (0, 1)


def splits(training_in_database: bool = True) -> list[Split]:
    protocol = PaperProtocol(5, 5, training_in_database)
    return [protocol.split(LABELS, seed) for seed in SEEDS]


def card(
    rules: RankingRules = RULES, training_in_database: bool = True
) -> ProtocolCard:
    found = splits(training_in_database)
    return ProtocolCard.of("made-up", found, rules, seeds=SEEDS, network="none")


def evaluation(split: Split, x: Tensor, rules: RankingRules = RULES) -> Evaluation:
    table = EmbeddingDistances(x[split.queries], x[split.database])
    return evaluate(table, LABELS[split.queries], LABELS[split.database], rules)


def run(name: str = "noise", strength: float = 0.0, **changes: object) -> Run:
    x = gaussian(80) + strength * torch.nn.functional.one_hot(LABELS, 8)
    made = card(**changes)  # type: ignore[arg-type]
    parts = splits(made.training_in_database)
    found = [evaluation(split, x, made.rules) for split in parts]
    return Run(name, made, tuple(found))


# --- cards ----------------------------------------------------------------------


def test_a_card_says_everything() -> None:
    made = card()
    assert (made.queries, made.training, made.database) == (20, 20, 60)
    assert made.training_in_database
    assert made.split_hashes == tuple(split.hash for split in splits())
    assert made.rules == RULES
    assert made.machine
    assert made.version.startswith("gradsnap ")
    for text in ("20 queries", "60 with the training", "whole database", "seeds 0, 1"):
        assert text in str(made)
    assert not card(training_in_database=False).training_in_database


def test_a_card_survives_json() -> None:
    made = card()
    again = ProtocolCard.from_record(json.loads(json.dumps(made.record())))
    assert again == made
    with pytest.raises(FileFormatError, match="no protocol card"):
        ProtocolCard.from_record({"dataset": "x"})


def test_options_are_recorded_and_may_differ() -> None:
    plain = card()
    options = {"strength": 0.5, "run.seed": 3}
    made = ProtocolCard.of("made-up", splits(), RULES, seeds=SEEDS, options=options)
    assert made.options == (("strength", "0.5"), ("run.seed", "3"))
    record = json.loads(json.dumps(made.record()))
    assert record["options"] == {"strength": "0.5", "run.seed": "3"}
    assert ProtocolCard.from_record(record) == made
    assert plain.differences(made) == ()
    assert "options" in [note.field for note in plain.notes(made)]


def test_cards_without_options_are_read() -> None:
    record = card().record()
    del record["options"]
    assert ProtocolCard.from_record(record) == card()
    with pytest.raises(FileFormatError, match="no protocol card"):
        ProtocolCard.from_record(record | {"options": [1]})


def test_differences_are_told() -> None:
    made = card()
    other = dataclasses.replace(made, divisor="found", network="alexnet", bits=32)
    assert [str(d) for d in made.differences(other)] == [
        "divisor: 'relevant' and 'found'"
    ]
    assert [d.field for d in made.notes(other)] == ["network", "bits"]
    assert made.differences(made) == ()


def test_a_card_needs_splits_of_one_size() -> None:
    with pytest.raises(InputError, match="1 splits of sizes"):
        ProtocolCard.of("x", splits()[:1], RULES, seeds=SEEDS)


# --- runs -----------------------------------------------------------------------


def test_a_run_survives_its_file(tmp_path: Path) -> None:
    made = run()
    made.save(tmp_path / "run.json")
    again = load_run(tmp_path / "run.json")
    assert again.card == made.card
    assert again.record() == made.record()
    assert again.spread == made.spread


def test_queries_left_out_survive_the_file(tmp_path: Path) -> None:
    made = run(rules=RankingRules(1, "found", "skip"))
    assert made.evaluations[0].average_precisions.isnan().any()
    made.save(tmp_path / "run.json")
    again = load_run(tmp_path / "run.json")
    assert again.record() == made.record()


def test_curves_as_csv(tmp_path: Path) -> None:
    made = run()
    made.save_curves(tmp_path / "curves.csv")
    with (tmp_path / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    first = made.evaluations[0]
    assert len(rows) == 2 * len(first.points)
    assert float(rows[0]["precision"]) == first.precision[0]
    assert int(rows[-1]["n"]) == 60


def test_bad_runs(tmp_path: Path) -> None:
    made = run()
    with pytest.raises(InputError, match="1 evaluations for 2 seeds"):
        Run("few", made.card, made.evaluations[:1])
    other = dataclasses.replace(made.card, divisor="found")
    with pytest.raises(InputError, match="but the card says"):
        Run("unlike", other, made.evaluations)
    with pytest.raises(InputError, match="there is no file"):
        load_run(tmp_path / "none")
    with pytest.raises(InputError, match=r"to read \(Is a directory\)"):
        load_run(tmp_path)
    for content in ("{", "[]", '{"format": "gradsnap-run-1"}', "{}"):
        (tmp_path / "bad").write_text(content)
        with pytest.raises(FileFormatError):
            load_run(tmp_path / "bad")


def test_an_evaluation_is_printed() -> None:
    text = str(run().evaluations[0])
    for part in ("MAP 0.", "95 % over queries", "ties: expected", "0 of 20"):
        assert part in text


# --- comparing ------------------------------------------------------------------


def test_runs_side_by_side() -> None:
    found = compare([run("plain"), run("better", strength=3.0)])
    plain, better = found.runs
    assert plain.against_first is None
    assert better.against_first is not None
    assert better.against_first.better
    assert better.against_first.queries == 40
    assert better.spread.mean > plain.spread.mean
    assert "better  MAP 0." in str(found)


def test_unlike_cards_are_refused() -> None:
    plain, other = run("plain"), run("other", rules=RankingRules(10, "found", "zero"))
    smaller = run("smaller", training_in_database=False)
    with pytest.raises(InputError, match="other in length: None and 10"):
        compare([plain, other])
    with pytest.raises(InputError, match=r"smaller in .*database: 60 and 40"):
        compare([plain, smaller])
    found = compare([plain, other], allow_differences=True)
    assert found.runs[1].against_first is None
    assert "! differs in divisor" in str(found)
    with pytest.raises(InputError, match="nothing to compare"):
        compare([])


# --- confidence -----------------------------------------------------------------


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = torch.rand(400, generator=torch.Generator().manual_seed(0))
    low, high = bootstrap(values)
    half = 1.96 * float(values.std()) / 20
    assert low == pytest.approx(float(values.mean()) - half, abs=0.003)
    assert high == pytest.approx(float(values.mean()) + half, abs=0.003)
    assert bootstrap(values) == (low, high)
    assert bootstrap(values, seed=1) != (low, high)
    holes = torch.cat([values, torch.full((5,), torch.nan)])
    assert bootstrap(holes) == (low, high)


def test_bootstrap_covers_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(100):
        values = torch.rand(50, generator=generator)
        low, high = bootstrap(values, level=0.9, resamples=500)
        covered += low < 0.5 < high
    assert 80 <= covered <= 97


def test_spread_is_students() -> None:
    figures = [0.70, 0.72, 0.74, 0.71]
    found = spread(figures)
    low, high = stats.t.interval(
        0.95, 3, loc=np.mean(figures), scale=stats.sem(figures)
    )
    assert found.interval == pytest.approx((low, high))
    assert found.deviation == pytest.approx(np.std(figures, ddof=1))
    alone = spread([0.5])
    assert math.isnan(alone.deviation)
    assert str(alone) == "0.5000 (one seed)"


def test_paired_test_agrees_with_scipy() -> None:
    generator = torch.Generator().manual_seed(0)
    theirs = torch.rand(30, generator=generator)
    ours = theirs + 0.02 + 0.08 * torch.randn(30, generator=generator)
    found = paired_test(ours, theirs)
    wanted = stats.permutation_test(
        (ours.numpy(), theirs.numpy()),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        n_resamples=10_000,
        rng=np.random.default_rng(0),
    )
    assert found.p_value == pytest.approx(wanted.pvalue, abs=0.02)
    assert found.difference == pytest.approx(float((ours - theirs).mean()), abs=1e-6)
    assert found.interval.low < found.difference < found.interval.high
    assert paired_test(theirs, theirs).p_value == 1.0
    assert not paired_test(theirs, theirs + 1).better
    assert "p = " in str(found)


def test_confidence_refusals() -> None:
    with pytest.raises(InputError, match="at least one seed"):
        spread([])
    with pytest.raises(InputError, match="not all NaN"):
        bootstrap(torch.full((3,), torch.nan))
    with pytest.raises(InputError, match="level must lie"):
        bootstrap(torch.ones(3), level=1.0)
    with pytest.raises(InputError, match=r"\(3,\) and \(2,\)"):
        paired_test(torch.ones(3), torch.ones(2))


# --- pictures -------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures(tmp_path: Path, suffix: str) -> None:
    runs = [run("plain"), run("better", strength=3.0)]
    plot_precision_at(runs, tmp_path / f"precision.{suffix}")
    plot_precision_recall(runs, tmp_path / f"recall.{suffix}")
    assert all(path.stat().st_size > 2000 for path in tmp_path.iterdir())


def test_pictures_that_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"ends in \.png"):
        plot_precision_at([run()], tmp_path / "precision.bmp")
    with pytest.raises(InputError, match="no run to draw"):
        plot_precision_at([], tmp_path / "precision.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"gradsnap\[plots\]"):
        plot_precision_at([run()], tmp_path / "precision.png")

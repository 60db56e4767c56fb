"""The paper's tables again: what is compared, what is kept, what is written."""

import csv
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from gradsnap.cli.app import app
from gradsnap.coders import CODERS, QUANTIZERS
from gradsnap.data import DATASETS, open_dataset
from gradsnap.errors import InputError
from gradsnap.evaluation import EmbeddingDistances, RankingRules, evaluate
from gradsnap.experiments import EXPERIMENTS, shallow
from gradsnap.experiments.bench import Bench
from gradsnap.experiments.cache import RunCache, name_of, placeless
from gradsnap.experiments.contenders import (
    Choice,
    Contender,
    coder_of,
    fixed_rows,
    labelled_methods,
    strengths_of,
    trained_contenders,
)
from gradsnap.experiments.jobs import Clock, Job, Work, carry_out
from gradsnap.experiments.layouts import layout_of
from gradsnap.experiments.paper import table_1, table_2, table_3
from gradsnap.experiments.paper.systems import SYSTEMS
from gradsnap.experiments.plan import Request, chosen_rows
from gradsnap.experiments.results import Axes, Cell, Result
from gradsnap.experiments.rows import Row, chosen_at, map_cells
from gradsnap.experiments.runs import Measures, about_run
from gradsnap.experiments.shallow import L2, shallow_figures
from gradsnap.experiments.sources import TITLES, Source
from gradsnap.experiments.table_3 import LENGTHS
from gradsnap.experiments.trunks import TRUNKS, default_trunk
from gradsnap.experiments.writing import as_csv, as_markdown, picture
from gradsnap.methods import METHODS, Recipe
from tests.commands import said

PAPER = Path(os.environ.get("GRADSNAP_PAPER", "paper.tex"))
"""Its LaTeX source, which is not ours to keep here."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Few steps on the digits."""
    return Bench(Source("digits"), tmp_path / "cache", seeds=1, quick=True)


# --- the paper ---------------------------------------------------------------


def test_every_table_and_figure_has_its_experiment() -> None:
    figures = [f"figure-{number}{letter}" for number in (3, 4) for letter in "abc"]
    assert list(EXPERIMENTS) == ["table-1", "table-2", "table-3", *figures]
    assert all(one.data in TITLES for one in EXPERIMENTS.values())


def test_the_papers_tables_are_whole() -> None:
    assert all(tuple(row) == table_1.COLUMNS for row in table_1.MAPS.values())
    systems = [list(rows) for rows in table_3.MAPS.values()]
    assert all(one == systems[0] for one in systems)
    assert set(systems[0]) | set(table_2.PARTS) <= set(SYSTEMS)
    assert table_3.MAPS["cifar10"]["Ours"] == ("-", "0.692", "0.747", "0.752")
    told = " ".join(table_3.NOTES)
    assert "DSRH row" in told
    assert "36-bit" in told


@pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")
def test_the_papers_numbers_are_as_printed() -> None:
    text = PAPER.read_text(encoding="utf-8")

    def numbers(label: str, rows: str) -> list[str]:
        part = next(one for one in text.split("\\begin{table*}") if label in one)
        line = next(one for one in part.splitlines() if rows in one and "&" in one)
        return re.findall(r"\d\.\d{3}", line)

    for system, label in (("CNNH*", "CNNH*"), ("DRSCH", "DRSCH "), ("Ours", "Ours ")):
        ours = [table_3.MAPS[data][system] for data in ("cifar10", "mnist", "nuswide")]
        printed = [one for row in ours for one in row if one[0] == "0"]
        assert numbers("{tabr}", label) == printed
    for row, label in (("GIST", "GIST  "), ("feat+GSL(AQ)", "+GSL(AQ)")):
        shown = " ".join(table_1.MAPS[row].values())
        assert numbers("{tabmvvv}", label) == re.findall(r"\d\.\d{3}", shown)


# --- what is compared --------------------------------------------------------


def test_rows_come_from_the_registries(bench: Bench) -> None:
    rows = chosen_rows(bench, Request())
    assert set(labelled_methods()) <= set(rows)
    assert "neighbors" not in rows  # learns without labels, and is scored without
    assert {f"snapping+{kind}" for kind in QUANTIZERS if kind != "pq"} <= set(rows)
    assert "fixed+itq" in rows
    assert "fixed+sign" not in rows  # its vectors have one dimension a bit
    with pytest.raises(InputError, match=r"unknown method 'dnh'; choose from snapping"):
        chosen_rows(bench, Request(methods=("dnh",)))


def test_a_registered_method_has_its_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = ("loss.options.margin", (0.5, 1.0))
    monkeypatch.setitem(METHODS, "mine", Recipe(summary="mine", tries=tries))
    found = chosen_rows(bench, Request())["mine"]
    assert found is not None
    assert (found.key, found.strengths) == tries
    config = bench.config(found, Choice(0.01, 1.0), bits=8, seed=2)
    assert config.loss.options == {"margin": 1.0}
    assert "mine" in said("reproduce", "table-2", "--out", bench.folder / "out")


@pytest.mark.parametrize("method", list(labelled_methods()))
def test_every_method_is_a_configuration(method: str, bench: Bench) -> None:
    contender = trained_contenders(bench.trunk.rates)[method]
    for choice in contender.choices():
        config = bench.config(contender, choice, bits=8, seed=1)
        assert config.method.name == method
        assert (config.run.seed, config.data.split_seed) == (1, 1)
        assert (config.coder.bits, config.optimizer.rate) == (8, choice.rate)
        kind, options = CODERS[config.coder.kind], config.coder.options
        free = kind.dim_of_bits(8, **options) is None
        own = METHODS[method].settings.get("network", {}).get("dim", bench.trunk.dim)
        assert config.network.dim == (own if free else None)


def test_options_of_a_recipe_and_of_the_trunk_are_both_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"network": {"options": {"dropout": 0.5}}}
    monkeypatch.setitem(METHODS, "mine", Recipe(summary="mine", settings=options))
    contender = trained_contenders((0.01,))["mine"]
    config = bench.config(contender, Choice(0.01), bits=8, seed=0)
    assert config.network.options == {"dropout": 0.5, "hidden": [128]}


def test_strengths_lie_around_the_default() -> None:
    assert strengths_of(METHODS["plain"]) == ("", ())
    key, values = strengths_of(METHODS["snapped-codes"])
    assert key == "layer.options.strength"
    assert list(values) == pytest.approx([0.3, 0.1, 0.9])


def asked_for(contender: Contender, figure: Callable[[Choice], float]) -> list[Choice]:
    """What a search asks for, and last what it chose."""
    search = contender.search()
    asked = [next(search)]
    while True:
        try:
            asked.append(search.send(figure(asked[-1])))
        except StopIteration as done:
            return [*asked, done.value]


def test_the_search_takes_the_best_rate_and_then_the_best_strength() -> None:
    contender = Contender("m", (), "loss.mixture", (2.0, 1.0, 3.0), (0.1, 0.2))
    # the best of all, rate .1 with strength 3, is not on the way
    *asked, best = asked_for(
        contender,
        lambda one: one.rate + (one.strength == 1) + 9 * (one == Choice(0.1, 3.0)),
    )
    assert best == Choice(0.2, 1.0)
    assert len(asked) == contender.trials == 4
    assert {one.rate for one in asked[2:]} == {0.2}


@pytest.mark.parametrize(
    ("best", "order"),
    [(0, [1, 2, 0]), (1, [1, 2, 0]), (2, [1, 2, 3]), (3, [1, 2, 3])],
)
def test_the_search_climbs_over_rates(best: int, order: list[int]) -> None:
    rates = (0.1, 0.2, 0.4, 0.8)
    *asked, found = asked_for(
        Contender("m", (), rates=rates), lambda one: -abs(rates.index(one.rate) - best)
    )
    assert [rates.index(one.rate) for one in asked] == order
    assert found.rate == rates[best]


def test_layouts() -> None:
    for bits in (4, 8, 12, 16, 24, 32, 48, 64):
        for rows in (50, 400, 4500):
            layout = layout_of(bits, rows)
            assert layout.bits == bits
            assert layout.codebook_size <= max(rows // 4, 2)


def test_choices_are_made_once_for_short_and_once_for_long_codes(bench: Bench) -> None:
    contender = trained_contenders((0.1, 0.2))["snapping"]
    whole = replace(bench, quick=False, seeds=2)
    lengths = (4, 8, 12, 24, 32, 48)
    jobs = Row(whole, "snapping", contender, lengths, map_cells(lambda *_: "")).jobs()
    trials = contender.trials
    assert [job.runs for job in jobs] == [2 + trials, 2, 2 + trials, 2, 2, 2]
    assert chosen_at(4, (4,)) == 4


def test_a_curve_has_the_choices_of_the_table(bench: Bench) -> None:
    whole = replace(bench, quick=False)
    contender = trained_contenders(whole.trunk.rates)["dhn"]
    none = map_cells(lambda *_: "")
    table = Row(whole, "dhn", contender, (8, 24, 32, 48), none)
    alone = Row(whole, "dhn", contender, (48,), none, chosen_among=(8, 32))
    (job,) = alone.jobs()
    assert job.runs == contender.trials + whole.seeds
    assert alone._chosen_at(48) == table._chosen_at(48) == 32


def test_every_fixed_row_is_a_coder() -> None:
    kinds = [coder_of(row) for row in fixed_rows()]
    assert set(kinds) == set(CODERS) - {"sign"}


@pytest.mark.parametrize("row", fixed_rows())
def test_every_fixed_row_has_every_length(row: str, bench: Bench) -> None:
    kind = coder_of(row) or ""
    for bits in LENGTHS:
        size = bench.codebook_size(kind, bits)
        assert CODERS[kind].of_bits(64, bits, size).bits == bits


# --- data and trunks ---------------------------------------------------------


def test_trunks_by_the_items(tmp_path: Path) -> None:
    digits = open_dataset("digits")
    assert default_trunk(digits) == "pixels"
    np.savez(tmp_path / "a.npz", vectors=np.zeros((4, 3), "f"), labels=np.arange(4) % 2)
    vectors = open_dataset(tmp_path / "a.npz")
    assert default_trunk(vectors) == "vectors"
    assert torch.equal(TRUNKS["vectors"].vectors(vectors, None), torch.zeros(4, 3))
    with pytest.raises(InputError, match="choose --trunk vectors"):
        TRUNKS["pixels"].vectors(vectors, None)
    with pytest.raises(InputError, match="choose another --trunk"):
        TRUNKS["vectors"].vectors(digits, None)
    with pytest.raises(InputError, match="--weights"):
        TRUNKS["alexnet"].tables(None)
    assert TRUNKS["alexnet"].tables("x.pth")["network"]["options"]["weights"] == "x.pth"
    assert "weights" not in TRUNKS["alexnet"].settings["network"]["options"]


def test_vectors_are_made_once_and_keep_labels(bench: Bench) -> None:
    first = bench.fixed
    changed = first.stat().st_mtime_ns
    again = replace(bench).fixed
    assert (again, again.stat().st_mtime_ns) == (first, changed)
    vectors, images = open_dataset(first), bench.source.dataset
    assert vectors.labels is not None
    assert images.labels is not None
    assert torch.equal(vectors.labels, images.labels)
    items = vectors.items.batch(torch.arange(3))
    pixels = images.items.batch(torch.arange(3))
    assert torch.equal(items, pixels.flatten(1) / 255)


def test_a_published_test_part_survives_in_a_file(tmp_path: Path) -> None:
    held_out = np.array([0, 0, 1, 1])
    vectors, labels = np.eye(4, dtype="f"), np.array([0, 1, 0, 1])
    path = tmp_path / "a.npz"
    np.savez(path, vectors=vectors, labels=labels, held_out=held_out)
    found = open_dataset(tmp_path / "a.npz").held_out
    assert found is not None
    assert found.tolist() == [False, False, True, True]
    np.savez(tmp_path / "b.npz", vectors=vectors, labels=labels)
    assert open_dataset(tmp_path / "b.npz").held_out is None


def test_a_published_test_part_asks(tmp_path: Path) -> None:
    held_out = np.arange(60) % 6 == 0
    vectors, labels = np.eye(60, dtype="f"), np.arange(60) % 3
    path = tmp_path / "a.npz"
    np.savez(path, vectors=vectors, labels=labels, held_out=held_out)
    words = ("data.protocol=ilsvrc2012",)
    bench = Bench(Source(str(path)), tmp_path / "cache", seeds=1, words=words)
    assert bench.split(0).queries.tolist() == list(range(0, 60, 6))
    kept = open_dataset(bench.fixed).held_out
    assert kept is not None
    assert torch.equal(kept, torch.from_numpy(held_out))
    contender = trained_contenders((0.01,))["plain"]
    config = bench.config(contender, Choice(0.01), bits=8, seed=0)
    assert (config.data.protocol, config.data.source) == (
        "ilsvrc2012",
        str(bench.fixed),
    )


def test_stand_ins_are_said() -> None:
    assert Source("cifar10").stand_in("cifar10") == ""
    assert "voc, a stand-in for NUS-WIDE" in Source("data/voc").stand_in("nuswide")
    assert all(Source(name).slug == name for name in DATASETS)


# --- what is kept ------------------------------------------------------------


def test_finished_runs_are_not_run_again(tmp_path: Path) -> None:
    cache, calls = RunCache(tmp_path / "runs"), iter([{"map": 0.5}])
    about = {"config": {"a": 1}}
    for _ in range(2):
        assert cache.figures(about, lambda: next(calls)) == {"map": 0.5}
    assert cache.has(about)
    cache.path(about).write_text("torn")
    assert not cache.has(about)
    assert cache.figures(about, lambda: {"map": 0.6}) == {"map": 0.6}


def test_a_run_is_named_by_its_settings_and_its_files(
    bench: Bench, tmp_path: Path
) -> None:
    contender = trained_contenders((0.01,))["snapping"]

    def name(rate: float = 0.01, seed: int = 0, length: int | None = None) -> str:
        config = bench.config(contender, Choice(rate), 8, seed)
        return name_of(about_run(config, Measures(length)))

    assert name() == name()
    assert len({name(), name(rate=0.02), name(seed=1), name(length=5)}) == 4
    for folder, content in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text(content)
    a, b, c = (placeless({"source": str(tmp_path / f / "x")}) for f in "abc")
    assert a == b != c


def test_the_words_of_the_user_reach_every_run(bench: Bench) -> None:
    own = replace(bench, words=("run.batch_size=17", "optimizer.weight_decay=0.5"))
    contender = trained_contenders((0.01,))["dhn"]
    config = own.config(contender, Choice(0.01), 8, 0)
    assert (config.run.batch_size, config.optimizer.weight_decay) == (17, 0.5)
    assert dict(own.card().options)["settings"] == " ".join(own.words)


def test_fixed_vectors_rank_as_evaluation_says(bench: Bench) -> None:
    found = shallow_figures(bench, bench.fixed, L2, 8, seed=0)
    split, dataset = bench.split(0), open_dataset(bench.fixed)
    rows, labels = dataset.batch(torch.arange(len(dataset)))
    distances = EmbeddingDistances(rows[split.queries], rows[split.database])
    asked = labels[split.queries], labels[split.database]
    wanted = evaluate(distances, *asked, RankingRules(None, "relevant", "zero"))
    assert found["code_map"] == pytest.approx(wanted.map)
    coded = shallow_figures(bench, bench.fixed, "itq", 8, seed=0)
    assert 0.1 < coded["code_map"] < found["code_map"]


def test_jobs_that_fail_do_not_stop_the_others() -> None:
    kept: list[Cell] = []

    def work(name: str) -> Work:
        yield f"{name} is done"
        if name == "bad":
            raise InputError("too few rows")
        return [Cell(name, "a", (1.0,))]

    def failed(why: str) -> list[Cell]:
        return [Cell("bad", "a", about={"error": why})]

    jobs = [Job(one, 1, lambda one=one: work(one), failed) for one in ("bad", "good")]  # type: ignore[misc]
    carry_out(jobs, "test", kept.extend)
    assert [(cell.row, cell.shown) for cell in kept] == [
        ("bad", "failed"),
        ("good", "1.000"),
    ]


def test_the_clock_estimates_from_what_was_run(monkeypatch: pytest.MonkeyPatch) -> None:
    times: Iterator[float] = iter([0.0, 0.1, 30.1, 60.1, 90.1])
    monkeypatch.setattr("gradsnap.experiments.jobs.time.monotonic", lambda: next(times))
    clock = Clock(4, since=next(times))
    assert clock.told("cached") == "1 of 4: cached"
    assert clock.told("trained") == "2 of 4, about 60 s: trained"
    assert clock.told("trained") == "3 of 4, about 30 s: trained"
    assert clock.told("trained") == "4 of 4: trained"


# --- what is written ---------------------------------------------------------


CHOSEN = {
    "rate": 0.01,
    "rate_at_end": True,
    "strength": 0.3,
    "validation_map": [0.75, 0.85],
    "float_map": [0.6, 0.8],
    "fitted_to": ["none", "train"],
    "seconds": [3.0, 5.0],
}


@pytest.fixture
def result() -> Result:
    cells = [
        Cell("dhn", "12 bits", (0.5, 0.7), 12, "DHN", "0.555", CHOSEN),
        Cell("dhn", "4 bits", (0.25,), 4, "DHN", ""),
        Cell("fixed+itq", "4 bits", (0.2,), 4),
        Cell("fixed+itq", "12 bits", (), 12, about={"error": "no | rows"}),
        Cell("(DQN)", "12 bits", (), 12, "DQN", "0.554"),
    ]
    axes = Axes("bits", "MAP", doubling=True)
    return Result("table-3", "A table", "tabr", "digits", cells, axes, None, ["So."])


def test_the_page_has_the_papers_figures_beside_ours(result: Result) -> None:
    page = as_markdown(result, "a.svg")
    assert "| method | in the paper | 4 bits | 12 bits, paper | 12 bits, ours |" in page
    assert "| dhn | DHN | 0.250 | 0.555 | 0.600 ± 0.100 |" in page
    assert "| (DQN) | DQN | – | 0.554 | – |" in page
    assert "| fixed+itq |  | 0.200 |  | failed |" in page
    assert "* fixed+itq, 12 bits: no | rows" in page
    assert "![A table](a.svg)" in page
    chosen = "| 0.01 (end) | 0.3 | 0.800 | 0.700 | kept, training part | 4 |"
    assert f"| dhn | 12 bits {chosen}" in page
    assert "* So." in page


def test_the_csv_has_a_line_a_cell(result: Result) -> None:
    lines = list(csv.DictReader(as_csv(result).splitlines()))
    assert len(lines) == len(result.cells)
    assert float(lines[0]["ours"]) == pytest.approx(0.6)
    assert float(lines[0]["standard_error"]) == pytest.approx(0.1)
    assert (lines[0]["paper"], lines[0]["rate"]) == ("0.555", "0.01")
    assert lines[1]["standard_error"] == ""
    assert lines[3]["error"] == "no | rows"


def test_the_picture_has_a_line_for_each_row(result: Result) -> None:
    drawn = picture(result)
    assert drawn.count('class="line') == 2 * 2  # in the chart and in the legend
    assert ">coders on fixed vectors</text>" in drawn
    assert "NaN" not in drawn
    assert picture(replace(result, cells=[])) == ""
    named = [Cell("a", "pq", (0.5,)), Cell("a", "itq", (0.75,))]
    assert ">itq</text>" in picture(replace(result, cells=named, axes=Axes("", "MAP")))
    bytes_shown = picture(replace(result, axes=Axes("bytes", "MAP", True, 8)))
    assert all(f">{one}</text>" in bytes_shown for one in ("0.5", "1.5"))
    from_one = [Cell("a", "1", (0.5,), 1), Cell("a", "2", (0.75,), 2)]
    assert ">1</text>" in picture(replace(result, cells=from_one))


def test_a_record_holds_every_value(result: Result) -> None:
    record = json.loads(json.dumps(result.record()))
    assert record["cells"][0]["values"] == [0.5, 0.7]
    assert record["cells"][0]["standard_error"] == pytest.approx(0.1)
    assert record["label_in_the_paper"] == "tabr"
    assert math.isfinite(record["cells"][0]["ours"])


# --- the command -------------------------------------------------------------


def test_alone_it_lists_what_there_is() -> None:
    listed = said("reproduce")
    assert all(f"  {name}" in listed for name in EXPERIMENTS)
    assert all(one.summary in listed for one in EXPERIMENTS.values())


def test_refusals(tmp_path: Path) -> None:
    out = ("--out", tmp_path)
    assert "did you mean 'table-3'" in said("reproduce", "tabel-3", *out)
    assert "--seeds must be 1" in said("reproduce", "table-3", "--seeds", "0", *out)
    assert "24,32,48" in said("reproduce", "table-3", "--bits", "many", *out)
    quick = ("reproduce", "table-3", "--quick", *out)
    assert "unknown trunk 'vgg'" in said(*quick, "--trunk", "vgg")
    assert "unknown method 'x'" in said(*quick, "--methods", "x")


def test_the_table_of_parts_needs_no_data(tmp_path: Path) -> None:
    record = json.loads(said("reproduce", "table-2", "--out", tmp_path, "--json"))
    cells = {(one["row"], one["column"]): one for one in record["cells"]}
    assert cells["dhn", "search"]["ours"] == "sign, Hamming"
    assert cells["dhn", "loss"]["paper"] == "Pair-wise logistic"
    assert not any("partial(" in one["ours"] for one in record["cells"])
    assert cells["snapping", "regularization"]["ours"] == "layer snapping"
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [
        ".csv",
        ".json",
        ".md",
    ]


def quickly(name: str, tmp_path: Path, *more: str) -> dict[str, object]:
    """What a quick run finds."""
    folders = ("--out", tmp_path / "out", "--cache", tmp_path / "cache")
    words = ("reproduce", name, "--quick", "--json", *folders, *more)
    found: dict[str, object] = json.loads(said(*words))
    return found


def test_a_small_table_resumes(tmp_path: Path) -> None:
    some = ("--methods", "dhn,fixed+itq", "--bits", "8", "run.steps=8")
    first = quickly("table-3", tmp_path, *some)
    runs = {path.name for path in (tmp_path / "cache" / "runs").iterdir()}
    assert len(runs) == 2
    assert quickly("table-3", tmp_path, *some)["cells"] == first["cells"]
    assert {path.name for path in (tmp_path / "cache" / "runs").iterdir()} == runs
    assert first["finished"]
    page = (tmp_path / "out" / "table-3-digits-pixels-quick.md").read_text()
    assert "200 queries, 400 training items" in page
    assert "hidden layer of 128" in page
    assert "validation part of seed 0, never on the queries" in page
    assert (tmp_path / "out" / "table-3-digits-pixels-quick.svg").is_file()


def test_what_was_interrupted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = shallow._Cell.measured
    done: list[str] = []

    def interrupted(cell: shallow._Cell, rules: RankingRules) -> dict[str, object]:
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(cell.kind)
        return measured(cell, rules)

    some = ("--methods", "fixed+itq,fixed+lsh", "--bits", "8", "--quick")
    folders = ("--out", tmp_path / "out", "--cache", tmp_path / "cache")
    words = ("reproduce", "table-3", *some, *folders)
    monkeypatch.setattr(shallow._Cell, "measured", interrupted)
    stopped = CliRunner().invoke(app, list(map(str, words)))
    assert stopped.exit_code == 130
    assert "goes on from here" in stopped.output
    file = tmp_path / "out" / "table-3-digits-pixels-quick.json"
    record = json.loads(file.read_text())
    assert (record["finished"], len(record["cells"])) == (False, 1)
    monkeypatch.setattr(shallow._Cell, "measured", measured)
    said(*words)
    again = json.loads(file.read_text())
    assert (again["finished"], len(again["cells"])) == (True, 2)
    assert again["cells"][0] == record["cells"][0]
    assert done == ["itq"]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_experiment_quickly(name: str, tmp_path: Path) -> None:
    found = quickly(name, tmp_path)
    cells = found["cells"]
    assert isinstance(cells, list)
    failed = [one["about"]["error"] for one in cells if "error" in one["about"]]
    assert not failed
    measured = [one["ours"] for one in cells if isinstance(one["ours"], float)]
    assert len(measured) > 1 or not EXPERIMENTS[name].trains
    assert all(0 <= value <= 1 for value in measured)
    made = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert {".json", ".csv", ".md"} <= made
    assert (".svg" in made) == EXPERIMENTS[name].trains

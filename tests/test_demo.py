"""The demo on few steps: the table, the page, its words, where it may be written."""

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gradsnap.cli.app import app
from gradsnap.demo import DemoSettings, record, run_demo
from gradsnap.demo import demo as demo_module
from gradsnap.demo.demo import Findings
from gradsnap.demo.measured import Data, Row
from gradsnap.demo.report import SECTIONS
from gradsnap.demo.settings import TRIALS, Trial
from gradsnap.demo.verdicts import heading, verdict, where_it_ends
from gradsnap.errors import GradsnapError, InputError
from gradsnap.reports.findings import Contrast, Range
from gradsnap.reports.scatter import flatten
from gradsnap.training.settings import differing
from tests.parsed_html import Parsed
from tests.platforms import needs_permissions

SHORT = DemoSettings(
    seeds=2,
    steps=8,
    trials={
        "plain": (Trial(0.01), Trial(0.02)),
        "snapping": (Trial(0.01, 0.3),),
        "codes": (Trial(0.01, 0.1, 0.3),),
    },
    lengths=(4, 8),
)
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("demo")
    return made / "deep" / "report"


@pytest.fixture(scope="module")
def found(folder: Path) -> Iterator[Findings]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradsnap.coders.quantizers.product.FITS", 1)  # it is quicker
        yield run_demo(folder, SHORT)


@pytest.fixture(scope="module")
def html(found: Findings, folder: Path) -> str:
    return (folder / "index.html").read_text(encoding="utf-8")


def around(middle: float) -> Range:
    return Range(middle, middle - 0.001, middle + 0.001)


def row(error: float, code_map: float, name: str = "without snapping") -> Row:
    floats, codes, lost = map(around, (0.9, code_map, error))
    return Row(name, 0.1, 0.3, 1.0, floats, codes, lost, 0.5, 128, 0.1, 0.1)


def test_the_page_is_well_formed_and_whole(html: str, folder: Path) -> None:
    assert Parsed(html).ids == list(SECTIONS)
    names = ["digits", "digits.index", "index.html", "model"]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_the_page_needs_no_network_and_no_script(html: str) -> None:
    assert not re.search(r"https?://", html)
    assert "<script" not in html
    assert "url(" not in html
    assert all(name.startswith("data:image/png") for name in Parsed(html).sources)


def test_every_picture_has_words(html: str) -> None:
    images = Parsed(html).images
    assert len(images) == 10 * (1 + 3 * SHORT.top)
    assert all(image["alt"] for image in images)
    for drawing in re.findall(r"<svg[^>]*>", html):
        assert "aria-label" in drawing or "aria-hidden" in drawing


def test_the_table_says_what_json_says(found: Findings, html: str) -> None:
    told = json.loads(json.dumps(record(found)))
    table = html.split("<table")[1].split("</table>")[0]
    for line, row in zip(table.split("<tr>")[2:], told["rows"], strict=True):
        shown = re.findall(r"<span>([\d.]+|–)", line)
        means = [row[k]["mean"] for k in ("float_map", "code_map", "relative_error")]
        assert shown[:3] == [f"{mean:.3f}" for mean in means]
        assert shown[3:] == [
            f"{row['milliseconds_a_query']:.3f}",
            f"{row['learning_rate']:g}",
            "–" if row["strength"] is None else f"{row['strength']:g}",
        ]
    assert [row["bytes_a_vector"] for row in told["rows"]] == [0.5, 0.5, 0.5]
    assert [row["strength"] for row in told["rows"]] == [None, 0.3, 0.1]
    assert all(escape(sentence) in html for sentence in told["verdict"])
    assert set(told["code_map_against_bits"]["through codes"]) == {"4", "8"}


def test_the_best_trial_of_each_side_is_kept(found: Findings) -> None:
    for layer, side in found.sides.items():
        assert tuple(side.validation) == SHORT.trials[layer]
        assert side.validation[side.trial] == max(side.validation.values())
        assert {n: len(runs) for n, runs in side.lengths.items()} == {4: 2, 8: 2}


def test_sides_differ_in_nothing_but_layer_and_trial() -> None:
    settings = DemoSettings()
    assert len(TRIALS["plain"]) == max(map(len, TRIALS.values()))
    plain = settings.config("plain", Trial(0.01), bits=4, seed=1)
    codes = settings.config("codes", Trial(0.01, 0.1, 0.3), bits=4, seed=1)
    differing_keys = [one.split(":")[0] for one in differing(plain, codes)]
    assert differing_keys == ["loss.mixture", "layer.name", "layer.options"]


def test_the_protocol_is_told(html: str) -> None:
    told = html.split('id="protocol"')[1]
    for words in ("split", "seeds", "machine", "command", "validation", "1097"):
        assert words in told


def test_codes_have_the_length_they_were_trained_for(found: Findings) -> None:
    for side in found.sides.values():
        for bits, runs in side.lengths.items():
            assert {run.coder.bits for run in runs} == {bits}


def test_flattening_keeps_the_widest_directions() -> None:
    rows = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    rows[:, 2] *= 10
    rows[:, 4] *= 5
    flat = flatten(rows, rows)
    assert flat.share > 0.9
    torch.testing.assert_close(flat.embeddings, flat.reconstructions)
    spread = rows[:, [2, 4]].double().std(dim=0)
    torch.testing.assert_close(flat.embeddings.std(dim=0), spread, rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("snapped", "words"),
    [
        (row(0.05, 0.95), ("50% less", "rank better")),
        (row(0.2, 0.8), ("100% more", "rank worse")),
        (row(0.1005, 0.9005), ("do not tell them apart", "do not tell them apart")),
    ],
)
def test_the_verdict_claims_what_was_measured(snapped: Row, words) -> None:
    sides = {"plain": row(0.1, 0.9), "codes": snapped}
    on_map, on_error, _ = verdict(sides, seeds=3)
    assert words[0] in on_error
    assert words[1] in on_map
    assert all("One seed" in one for one in verdict(sides, seeds=1)[:2])


def test_every_side_is_set_beside_the_plain_one() -> None:
    sides = {
        "plain": row(0.1, 0.8),
        "snapping": row(0.1, 0.8, "with snapping"),
        "codes": row(0.05, 0.9, "through codes"),
    }
    first, second, *_, last = verdict(sides, seeds=3)
    assert first.endswith("codes rank better through codes.")
    assert "0.800 with snapping" in second
    assert "do not tell them apart" in second
    assert "-0.100 without snapping, -0.100 with snapping, +0.000 through" in last


def test_codes_that_rank_as_well_as_floats_are_told() -> None:
    assert "little is left to gain" in verdict({"plain": row(0.1, 0.95)}, seeds=3)[0]
    assert "little is left" not in verdict({"plain": row(0.1, 0.8)}, seeds=3)[0]


def test_the_heading_is_the_gain_if_there_is_one() -> None:
    sides = {"plain": row(0.1, 0.8), "codes": row(0.1, 0.9)}
    told = heading(sides, bits=4, seeds=3)
    assert told.startswith("Codes of half a byte rank with MAP 0.90 instead of 0.80")
    assert heading(sides, bits=4, seeds=1).endswith("trained in three ways")
    same = sides | {"codes": row(0.1, 0.8)}
    assert heading(same, bits=8, seeds=3) == "Codes of one byte, trained in three ways"


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ((0.9, 0.9, 0.9), " at 4, 8 and 16 bits."),
        ((0.9, 0.8, 0.7), " at 4 bits, and is not at 8 and 16."),
        ((0.8, 0.8, 0.8), "length here does every seed through codes rank better."),
    ],
)
def test_where_the_gain_ends(codes, words) -> None:
    plain, after = (
        dict(zip((4, 8, 16), map(around, maps), strict=True))
        for maps in ((0.8, 0.8, 0.8), codes)
    )
    assert where_it_ends(plain, after, seeds=3).endswith(words)
    assert "One seed" in where_it_ends(plain, after, seeds=1)


def test_what_is_said_of_lengths() -> None:
    low, high, wide = Range(0.5, 0.4, 0.6), Range(0.8, 0.7, 0.9), Range(0.6, 0.1, 0.9)
    sides = Contrast("without snapping", "with snapping", seeds=3)
    said = sides.on_bits({8: low, 16: high, 24: low}, {8: high, 16: low, 24: wide})
    assert "At 8 bits every seed with snapping ranks better" in said
    assert "At 16 bits every seed without snapping ranks better" in said
    assert "At the other lengths the seeds without snapping and with snapping" in said
    assert "At every length the seeds without" in sides.on_bits({8: low}, {8: wide})
    assert "One seed" in sides._replace(seeds=1).on_bits({8: low}, {8: high})


def test_no_seeds() -> None:
    with pytest.raises(InputError, match="seeds must be at least 1, got 0"):
        DemoSettings(seeds=0)


def refusal(out: Path) -> str:
    result = RUNNER.invoke(app, ["demo", "--out", str(out)])
    assert isinstance(result.exception, GradsnapError)
    return str(result.exception)


def test_an_output_that_is_a_file_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert "it is a file, not a folder" in refusal(file)
    assert "cannot make the folder" in refusal(file / "report")
    assert file.read_text() == "mine"


@needs_permissions
def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "cannot make the folder" in refusal(tmp_path / "locked" / "report")
    assert "cannot write the report" in refusal(tmp_path / "locked")


def test_an_interrupted_demo_leaves_the_old_report(tmp_path, monkeypatch) -> None:
    (tmp_path / "index.html").write_text("old")

    def interrupted(settings: DemoSettings, data: Data) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_module, "train_sides", interrupted)
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            run_demo(folder, SHORT)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "old"


@pytest.mark.parametrize("option", ["--json", "--quiet", None])
def test_the_verb(found, monkeypatch, tmp_path, option) -> None:
    monkeypatch.setattr("gradsnap.demo.run_demo", lambda out, settings: found)
    given = [] if option is None else [option]
    result = RUNNER.invoke(app, ["demo", "--out", str(tmp_path), *given])
    assert result.exit_code == 0, result.output
    if option == "--quiet":
        assert result.output == ""
    elif option == "--json":
        told = json.loads(result.output)
        assert told["rows"] == json.loads(json.dumps(record(found)["rows"]))
        assert told["report"] == str(tmp_path / "index.html")
    else:
        for side in found.sides.values():
            assert f"{side.row.code_map.mean:.3f}" in result.output
            assert f"{side.rows[8].code_map.mean:.3f}" in result.output
        assert "ms a query" in result.output
        assert "…" not in result.output
        assert max(map(len, result.output.splitlines())) <= 80


def test_the_digits_can_be_served(found: Findings, folder: Path) -> None:
    import gradsnap as gs

    index = gs.load_index(folder / "digits.index")
    run = found.sides["codes"].lengths[8][0]
    assert len(index) == len(run.database.rows)
    item = index.select()[5]
    assert index.path_of(item) == folder / "digits" / item
    model = gs.load(index.notes["model"])
    nearest = index.search(model.embed(model.decode_image(folder / "digits" / item)), 3)
    assert item in nearest.ids[0]
    assert index.metadata([item]) == [{"label": item.split("/")[0]}]

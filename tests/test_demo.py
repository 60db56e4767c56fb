"""The demo on few steps: the table, the page, its words, where it may be written."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gradsnap.cli.app import app
from gradsnap.demo import DemoSettings, record, run_demo
from gradsnap.demo import demo as demo_module
from gradsnap.demo.demo import Findings, Row
from gradsnap.demo.report import SECTIONS, verdict
from gradsnap.errors import GradsnapError, InputError
from gradsnap.reports.findings import Contrast, Range
from gradsnap.reports.scatter import flatten
from tests.parsed_html import Parsed

SHORT = DemoSettings(seeds=2, steps=16, rates=(0.02, 0.05), lengths=(8, 16))
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made: Path = tmp_path_factory.mktemp("demo")
    return made / "deep" / "report"


@pytest.fixture(scope="module")
def found(folder: Path) -> Findings:
    return run_demo(folder, SHORT)


@pytest.fixture(scope="module")
def html(found: Findings, folder: Path) -> str:
    return (folder / "index.html").read_text(encoding="utf-8")


def row(error: float, code_map: float, spread: float = 0.001) -> Row:
    floats, codes, lost = (
        Range(x, x - spread, x + spread) for x in (0.9, code_map, error)
    )
    return Row("name", 0.1, floats, codes, lost, 2.0, 128, 0.1, 0.1)


def test_the_page_is_well_formed_and_whole(html: str, folder: Path) -> None:
    assert Parsed(html).ids == list(SECTIONS)
    assert [path.name for path in folder.iterdir()] == ["index.html"]


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
        shown = re.findall(r"<span>([\d.]+)", line)
        means = [row[k]["mean"] for k in ("float_map", "code_map", "relative_error")]
        assert shown[:3] == [f"{mean:.3f}" for mean in means]
        assert shown[3:] == [
            f"{row['bytes_a_vector']:g}",
            f"{row['milliseconds_a_query']:.3f}",
            f"{row['learning_rate']:g}",
        ]
    assert [row["bytes_a_vector"] for row in told["rows"]] == [2, 2]
    assert all(sentence in html for sentence in told["verdict"])
    assert told["verdict_against_bits"] in html


def test_the_protocol_is_told(html: str) -> None:
    told = html.split('id="protocol"')[1]
    for words in ("split", "seeds", "machine", "command", "validation", "1097"):
        assert words in told


def test_codes_at_the_trained_length_score_alike(found: Findings) -> None:
    for side in found.sides.values():
        for run in side.runs:
            assert run.scores.codes.map == run.code_maps[16]


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
    said = verdict(row(0.1, 0.9), snapped, seeds=3)
    assert all(word in one for word, one in zip(words, said, strict=False))
    alone = verdict(row(0.1, 0.9), snapped, seeds=1)
    assert all("One seed" in one for one in alone[:2])


def test_codes_that_rank_as_well_as_floats_are_told() -> None:
    assert "little is left to gain" in verdict(row(0.1, 0.95), row(0.1, 0.95), 3)[2]
    assert "0.100 of MAP" in verdict(row(0.1, 0.8), row(0.1, 0.8), 3)[2]


def test_what_is_said_of_lengths() -> None:
    low, high, wide = Range(0.5, 0.4, 0.6), Range(0.8, 0.7, 0.9), Range(0.6, 0.1, 0.9)
    sides = Contrast("without snapping", "with snapping", seeds=3)
    said = sides.on_bits({8: low, 16: high, 24: low}, {8: high, 16: low, 24: wide})
    assert "At 8 bits every seed with snapping ranks better" in said
    assert "At 16 bits every seed without snapping ranks better" in said
    assert "At the other lengths the seeds overlap" in said
    assert "At every length the seeds overlap" in sides.on_bits({8: low}, {8: wide})
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


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "cannot make the folder" in refusal(tmp_path / "locked" / "report")
    assert "cannot write the report" in refusal(tmp_path / "locked")


def test_an_interrupted_demo_leaves_the_old_report(tmp_path, monkeypatch) -> None:
    (tmp_path / "index.html").write_text("old")

    def interrupted(settings: DemoSettings) -> None:
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
        assert f"{found.sides['snapping'].row.code_map.mean:.3f}" in result.output
        assert "ms a query" in result.output
        assert "…" not in result.output
        assert max(map(len, result.output.splitlines())) <= 80

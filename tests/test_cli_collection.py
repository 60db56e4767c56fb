"""``gradsnap index, sync, remove, update, duplicates`` with good and bad words."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import gradsnap as gs
from gradsnap.cli.app import app
from gradsnap.coders import CODERS
from gradsnap.collection.facts import facts_of
from gradsnap.collection.pretrained import set_axes
from gradsnap.collection.side_table import SideTable
from gradsnap.errors import FileFormatError, InputError
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.networks import build_network
from gradsnap.reports.tiles import Group, Tile, sheet
from tests.commands import said
from tests.photo_folders import make_photos

COUNT = 24


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    options: dict[str, Any] = {"dim": 8, "side": 8, "channels": 3}
    network = build_network("small", **options).eval()
    rows = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)) / 10
    coder = CODERS["pq"].of_bits(8, 16).fit(rows)
    folder: Path = tmp_path_factory.mktemp("model") / "model"
    Model(network, coder, NetworkSpec("small", options, 8, 3)).save(folder)
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    make_photos(tmp_path / "photos", range(COUNT))
    return tmp_path / "photos"


@pytest.fixture
def index(model: Path, photos: Path, tmp_path: Path) -> Path:
    said("index", model, photos, "--out", tmp_path / "i", "-q")
    return tmp_path / "i"


@pytest.fixture(scope="module")
def kept(model: Path, tmp_path_factory) -> Path:
    """A folder of photos that no test changes; its index lies beside it."""
    folder: Path = tmp_path_factory.mktemp("kept") / "photos"
    make_photos(folder, range(COUNT))
    said("index", model, folder, "--out", folder.parent / "i", "-q")
    return folder


def heard(*words: object) -> Any:
    return json.loads(said(*words, "--json"))


def test_known_items_are_skipped_or_replaced(model, photos, index) -> None:
    make_photos(photos, range(COUNT, COUNT + 3))
    done = heard("index", photos, "--add", "--out", index)
    assert (done["items"], done["known_already"]) == (COUNT + 3, COUNT)
    done = heard("index", model, photos, "--add", "--replace", "--out", index)
    assert (done["items"], done["replaced"]) == (COUNT + 3, COUNT + 3)


def test_equal_names_below_two_roots(photos, index, tmp_path) -> None:
    make_photos(tmp_path / "x" / "photos", range(4))
    heard("index", tmp_path / "x" / "photos", "--add", "--out", index)
    opened = gs.load_index(index)
    assert len(opened) == COUNT + 4
    assert opened.path_of("IMG_0.jpg") == photos / "IMG_0.jpg"
    other = tmp_path / "x" / "photos" / "IMG_0.jpg"
    assert opened.path_of("photos//IMG_0.jpg") == other
    (other).unlink()
    assert heard("sync", index)["removed"] == 1
    assert len(gs.load_index(index)) == COUNT + 3


def test_a_changed_a_touched_and_a_new_link(photos, index, tmp_path) -> None:
    Image.new("RGB", (9, 9)).save(photos / "IMG_0.jpg")
    os.utime(photos / "[bold]12.gif", (1e9, 1e9))
    (tmp_path / "more").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "more" / "1.png")
    (photos / "link").symlink_to(tmp_path / "more")
    done = heard("sync", index, photos)
    assert {k: done[k] for k in ("added", "changed", "touched", "removed")} == {
        "added": 1,
        "changed": 1,
        "touched": 1,
        "removed": 0,
    }
    opened = gs.load_index(index)
    assert opened.metadata(["[bold]12.gif"])[0]["time"].year == 2001
    assert opened.path_of("link/1.png") == photos / "link" / "1.png"


def test_sync_says_what_it_would_do(photos, index, tmp_path) -> None:
    (photos / "IMG_0.jpg").unlink()
    assert heard("sync", index, "--dry-run")["removed"] == 1
    assert "IMG_0.jpg" in gs.load_index(index)
    photos.rename(tmp_path / "moved")
    assert "gradsnap update INDEX --root" in said("sync", index)
    assert "is no folder of this index" in said("sync", index, tmp_path / "elsewhere")
    heard("update", index, "--root", tmp_path / "moved")
    assert heard("sync", index)["removed"] == 1


def test_remove_by_id_pattern_and_condition(index) -> None:
    assert heard("remove", index, "IMG_0.jpg")["ids"] == ["IMG_0.jpg"]
    pattern = heard("remove", index, "misc [[]old]/*", "--dry-run")
    assert len(pattern["ids"]) == 4
    assert len(gs.load_index(index)) == COUNT - 1
    left = heard("remove", index, "--where", "camera is not null")["items"]
    opened = gs.load_index(index)
    assert left == len(opened) == len(opened.select("camera is null"))
    assert "nothing in the index" in said("remove", index, "nobody*")
    assert "name ids or patterns" in said("remove", index)


def test_update_of_metadata(index, tmp_path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("file,who,stars\nIMG_0.jpg,Ann,5\nnobody.jpg,Bo,1\n")
    done = heard("update", index, "--metadata", table)
    assert (done["updated"], done["rows of no item"]) == (1, 1)
    heard("update", index, "2021/*", "--set", "stars=3", "--set", "who=Cy")
    opened = gs.load_index(index)
    assert list(opened.select('who = "Ann" and stars = 5')) == ["IMG_0.jpg"]
    assert set(opened.select("stars = 3")) == set(opened.select('folder like "2021%"'))
    assert "nothing to update" in said("update", index)
    assert "size, time" in said("update", index, "--set", "size=3")


def test_metadata_at_the_start(model, photos, tmp_path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("name,who\nIMG_0.jpg,Ann\n")
    said("index", model, photos, "--metadata", table, "--out", tmp_path / "j")
    assert list(gs.load_index(tmp_path / "j").select("who is not null")) == [
        "IMG_0.jpg"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name\nx\n", "needs a first line"),
        ("name,size\nx,1\n", "has a column size"),
        ("name,a\nx\n", "row 2: 1 cells"),
        ("name,a\nx,1\nx,2\n", "'x' comes twice"),
        ("name,a,a\nx,1,2\n", "names that differ"),
    ],
)
def test_bad_tables(tmp_path, text, words) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises((InputError, FileFormatError), match=words):
        SideTable(tmp_path / "t.csv")


def test_kinds_of_columns(tmp_path) -> None:
    text = "name,a,b,c,d,e\nx,1,1,true,u,\ny,2,0.5,false,3_0,\nz,,,,,\n"
    (tmp_path / "t.csv").write_text(text)
    columns = SideTable(tmp_path / "t.csv").columns_for(["f/y", "z", "w"])
    assert {name: str(one.type) for name, one in columns.items()} == {
        "a": "int64",
        "b": "double",
        "c": "bool",
        "d": "string",
        "e": "string",
    }
    assert columns["b"].to_pylist() == [0.5, None, None]


def test_standard_input_and_several_queries(kept) -> None:
    index, photos = kept.parent / "i", kept
    image = (photos / "IMG_0.jpg").read_bytes()
    run = CliRunner()
    words = ["search", str(index), "-", "-k", "2", "--json"]
    found = json.loads(run.invoke(app, words, input=image).stdout)
    assert found[0]["results"][0]["id"] == "IMG_0.jpg"
    assert found[0]["results"][0]["distance"] == 0
    listed = os.fsencode("\n".join(str(p) for p in sorted(photos.glob("IMG*"))))
    found = json.loads(run.invoke(app, words, input=listed).stdout)
    assert [one["results"][0]["distance"] for one in found] == [0] * len(found)
    vectors = io.BytesIO()
    np.save(vectors, np.zeros((3, 8), np.float32))
    found = json.loads(run.invoke(app, words, input=vectors.getvalue()).stdout)
    assert len(found) == 3
    both = heard(
        "search", index, photos / "IMG_0.jpg", "--id", "2021/photo 1.jpg", "-k1"
    )
    assert [one["results"][0]["distance"] for one in both] == [0, 0]
    assert "standard input is empty" in str(run.invoke(app, words, input=b"").exception)


def test_together_is_by_the_sum_of_distances(kept) -> None:
    index, photos = kept.parent / "i", kept
    asked = [photos / "IMG_0.jpg", photos / "[bold]12.gif"]
    found = heard("search", index, *asked, "--together", "-k", COUNT)
    opened, own = (
        gs.load_index(index),
        gs.load(Path(gs.load_index(index).notes["model"])),
    )
    rows = torch.cat([own.embed(own.decode_image(path)) for path in asked])
    ids = list(opened.select())
    total = torch.cdist(rows, opened.reconstruct(ids)).square().sum(dim=0)
    by_id = dict(zip(ids, total.tolist(), strict=True))
    sums = [by_id[one["id"]] for one in found[0]["results"]]
    np.testing.assert_allclose(sums, sorted(by_id.values()), rtol=1e-4)


def test_names_are_printed_escaped(kept) -> None:
    index = kept.parent / "i"
    shown = said("search", index, "--id", "linked/ctrl\x1b[31m5.png", "-k", COUNT)
    assert "\x1b" not in shown
    assert r"ctrl\x1b[31m5" in shown
    assert r"caf\udce9 6" in shown
    assert "[bold]12" in shown
    assert r"new\nline 7" in shown


def test_long_names_are_not_cut(model, tmp_path) -> None:
    name = "n" * 200 + ".png"
    (tmp_path / "long").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "long" / name)
    said("index", model, tmp_path / "long", "--out", tmp_path / "j")
    assert name in said("search", tmp_path / "j", "--id", name)


def test_pages_hold_pictures_and_escape_names(kept, tmp_path) -> None:
    index, photos = kept.parent / "i", kept
    page = tmp_path / "r.html"
    said("search", index, photos / "IMG_0.jpg", "-k", 4, "--html", page)
    assert page.read_text().count("data:image/") == 5  # the query too
    said("duplicates", index, "--within", 0.01, "--html", page)
    assert "Near-duplicates" in page.read_text()
    evil = Tile("<script>alert(1)</script>\x1b", None, "a & b")
    text = sheet("<b>", "", [Group('"><img src=x>', [evil])], "")
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_facts_of_a_file(photos) -> None:
    facts = facts_of(photos / "IMG_0.jpg")
    assert (facts.camera, facts.width, facts.height) == ("Canon EOS", 24, 20)
    assert facts.taken is not None
    assert facts.taken.isoformat() == "2010-05-01T12:30:00"
    (photos / "bad.jpg").write_bytes(b"x")
    bad = facts_of(photos / "bad.jpg")
    assert (bad.size, bad.width, bad.taken) == (1, None, None)


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_axes_are_at_right_angles_and_keep_distances(rows) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 12, generator=generator)
    layer = torch.nn.Linear(12, 8)
    set_axes(layer, x)
    torch.testing.assert_close(layer.weight @ layer.weight.T, torch.eye(8))
    torch.testing.assert_close(layer(x.mean(dim=0)), torch.zeros(8), atol=1e-5, rtol=0)
    if rows == 3:  # two axes hold all of it
        torch.testing.assert_close(torch.cdist(layer(x), layer(x)), torch.cdist(x, x))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["index", "{p}", "--out", "{t}/no/i"], "make it first"),
        (["index", "{p}", "--replace", "--out", "{t}/k"], "--replace is for --add"),
        (["index", "{t}/nowhere", "--out", "{t}/k"], "no file or folder"),
        (["search", "{i}", "{p}/none.jpg"], "there is no image"),
        (["search", "{i}", "{p}/IMG_0.jpg", "--where", "x = 1"], "no column 'x'"),
        (["search", "{i}", "{p}/IMG_0.jpg", "--columns", "x"], "no column 'x' to show"),
        (["search", "{i}", "--id", "nobody"], "not in the index"),
        (
            ["search", "{i}", "{p}/IMG_0.jpg", "--html", "{t}/no/x.html"],
            "make it first",
        ),
        (["duplicates", "{i}", "--within", "-1"], "at least 0"),
        (["sync", "{p}"], "not an index"),
    ],
)
def test_bad_words_are_a_sentence(kept, tmp_path, words, sentence) -> None:
    places = {"p": kept, "t": tmp_path, "i": kept.parent / "i"}
    filled = [one.format(**places) for one in words]
    assert sentence in said(*filled)


def test_version() -> None:
    assert said("--version").startswith("gradsnap ")


def test_whole_classes_as_duplicates_are_a_warning(tmp_path: Path, caplog) -> None:
    """As a model that was trained on classes would place its items."""
    places = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    rows = places.repeat_interleave(5, dim=0)
    index = gs.ExhaustiveIndex(
        gs.ProductQuantizer(8, 2, 4).fit(rows), refiner=gs.HalfPrecision(8)
    )
    index.add(rows).save(tmp_path / "i")
    said("duplicates", tmp_path / "i")
    assert "20 of 20 items are in a group" in caplog.text
    caplog.clear()
    said("duplicates", tmp_path / "i", "--within", 0.001)
    assert caplog.text == ""

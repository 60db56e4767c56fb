"""``gradsnap encode, index, search, export`` as a user types them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gradsnap as gs
from gradsnap.collection import adding
from tests.commands import said as gradsnap


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "photos"
    generator = np.random.default_rng(0)
    for name, base in (("cats", 60), ("dogs", 190)):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            noise = generator.integers(-40, 40, (16, 16, 3))
            pixels = np.clip(base + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def model(photos: Path) -> Path:
    out = photos.parent / "model"
    gradsnap("train", photos, "--bits", 8, "--out", out, "run.steps=6", "-q")
    return out


@pytest.fixture(scope="module")
def photo_index(photos: Path, model: Path) -> Path:
    out = photos.parent / "photos.index"
    gradsnap("index", model, photos, "--out", out)
    return out


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "v.npy", rows)
    return tmp_path / "v.npy"


def test_codes_equal_the_models(photos, model, tmp_path) -> None:
    gradsnap("encode", model, photos, "--out", tmp_path / "codes.npy")
    opened = gs.load(model)
    dataset = opened.open(str(photos))
    expected = opened.encode(dataset)
    assert torch.equal(torch.from_numpy(np.load(tmp_path / "codes.npy")), expected)


def test_search_by_image_and_by_id(photo_index, photos) -> None:
    by_image = json.loads(
        gradsnap("search", photo_index, photos / "cats" / "3.png", "-k", 3, "--json")
    )
    assert len(by_image[0]["results"]) == 3
    first = by_image[0]["results"][0]
    assert first.keys() >= {"id", "distance", "label", "size", "time", "checksum"}
    by_id = json.loads(
        gradsnap("search", photo_index, "--id", "cats/3.png", "-k", 20, "--json")
    )
    found = {one["id"]: one["label"] for one in by_id[0]["results"]}
    assert len(found) == 20
    assert found["dogs/3.png"] == "dogs"


def test_search_shows_a_table(photo_index) -> None:
    assert "nearest to cats/3.png" in gradsnap(
        "search", photo_index, "--id", "cats/3.png"
    )


def test_adding_to_an_index(photos, model, tmp_path) -> None:
    (tmp_path / "more").mkdir()
    Image.new("RGB", (16, 16)).save(tmp_path / "more" / "new.png")
    out = tmp_path / "i"
    gradsnap("index", model, photos, "--out", out)
    said = json.loads(
        gradsnap("index", model, tmp_path / "more", "--add", "--json", "--out", out)
    )
    assert said["items"] == 21
    assert "new.png" in gradsnap("search", out, "--id", "more//new.png", "-k", 21)


@pytest.mark.parametrize("kind", ["exhaustive", "inverted", "multi", "local"])
def test_vectors_alone(vectors, tmp_path, kind) -> None:
    options = ("--bits", 16, "--kind", kind, "--keep-half", "--out", tmp_path / "i")
    said = json.loads(gradsnap("index", vectors, *options, "--json"))
    assert said["items"] == 300
    found = json.loads(gradsnap("search", tmp_path / "i", vectors, "-k", 1, "--json"))
    hits = sum(one["results"][0]["id"] == row for row, one in enumerate(found))
    assert hits > 250  # half precision finds a vector itself, where its list is probed


def test_saving_now_and_then_changes_nothing(vectors, tmp_path, monkeypatch) -> None:
    from gradsnap.inference import embedding

    gradsnap("index", vectors, "--bits", 16, "--out", tmp_path / "one")
    monkeypatch.setattr(embedding, "BLOCK", 64)
    monkeypatch.setattr(adding, "SAVE_EVERY", 100)
    gradsnap("index", vectors, "--bits", 16, "--out", tmp_path / "many")
    one, many = (gs.load_index(tmp_path / name) for name in ("one", "many"))
    queries = torch.from_numpy(np.load(vectors))[:20]
    for first, second in zip(
        one.search(queries, 9), many.search(queries, 9), strict=True
    ):
        assert torch.equal(first, second)


@pytest.mark.slow
def test_exports(photo_index, model, vectors, photos, tmp_path) -> None:
    gradsnap("index", vectors, "--bits", 16, "--out", tmp_path / "i")
    gradsnap("export", tmp_path / "i", "--to", "faiss", "--out", tmp_path / "x.faiss")
    import faiss

    assert faiss.read_index(str(tmp_path / "x.faiss")).ntotal == 300
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    gradsnap("export", model, "--to", "onnx", "--out", tmp_path / "x.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "x.onnx"))
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    (codes,) = session.run(None, {"input": images.numpy()})
    assert torch.equal(torch.from_numpy(codes).byte(), gs.load(model).encode(images))


def test_a_moved_model(photos, model, tmp_path) -> None:
    model.rename(tmp_path / "moved")
    out = tmp_path / "i"
    gradsnap("index", tmp_path / "moved", photos, "--out", out)
    (tmp_path / "moved").rename(model)
    query = photos / "cats" / "3.png"
    assert "name it with --model" in gradsnap("search", out, query)
    assert "nearest" in gradsnap("search", out, query, "--model", model)


def test_another_model_is_refused(photos, photo_index, tmp_path) -> None:
    settings = ("--bits", 8, "run.steps=6", "run.seed=5", "-q")
    gradsnap("train", photos, *settings, "--out", tmp_path / "other")
    query = photos / "cats" / "3.png"
    said = gradsnap("search", photo_index, query, "--model", tmp_path / "other")
    assert "other codebooks" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["index", "{v}", "--kind", "graph", "--out", "{t}/i"], "exhaustive, inverted"),
        (["index", "{v}", "--bits", "13", "--out", "{t}/i", "--coder", "x"], "pq"),
        (["index", "{t}", "{v}", "--out", "{t}/i"], "no model folder"),
        (["index", "a", "b", "c", "--out", "{t}/i"], "[MODEL] SOURCE"),
        (["index", "{v}", "--out", "{t}"], "exists already"),
        (["search", "{t}", "{v}"], "not an index"),
        (["search", "{t}/nowhere", "{v}"], "there is no index"),
        (["encode", "{t}/nowhere", "{v}", "--out", "{t}/c.npy"], "no model folder"),
        (["export", "{t}/nowhere", "--to", "csv", "--out", "{t}/c"], "faiss, onnx"),
    ],
)
def test_bad_input_is_a_sentence(vectors, tmp_path, arguments, words) -> None:
    filled = [one.format(v=vectors, t=tmp_path) for one in arguments]
    assert words in gradsnap(*filled)


def test_a_search_needs_a_query(photo_index) -> None:
    assert "name a query" in gradsnap("search", photo_index)


def test_evaluate_and_compare(model, photos, tmp_path) -> None:
    said = json.loads(gradsnap("evaluate", model, "--json", "--out", tmp_path / "e"))
    assert said["MAP of model codes"] == pytest.approx(
        gs.load(model).card["figures"]["code_map"]
    )
    names = {path.name for path in (tmp_path / "e").iterdir()}
    assert names >= {"floats.json", "codes.json", "codes.csv", "precision_at.png"}
    files = tmp_path / "e" / "floats.json", tmp_path / "e" / "codes.json"
    assert "model codes" in gradsnap("compare", *files)
    assert len(json.loads(gradsnap("compare", tmp_path / "e", "--json"))) == 2
    gradsnap("evaluate", model, "--length", 3, "--out", tmp_path / "short", "-q")
    other = tmp_path / "short" / "codes.json"
    said = gradsnap("compare", files[1], other)
    assert "different questions" in said
    assert "length" in said
    assert "length" in gradsnap("compare", files[1], other, "--allow-differences")


def test_bad_evaluations(model, tmp_path) -> None:
    assert "relevant, found" in gradsnap("evaluate", model, "--divisor", "all")
    assert "not evaluated yet" in gradsnap("compare", tmp_path)
    assert "there is no file" in gradsnap("compare", tmp_path / "x.json")


def test_info(model, photo_index, tmp_path) -> None:
    assert json.loads(gradsnap("info", model, "--json"))["network"].startswith("small")
    assert json.loads(gradsnap("info", photo_index, "--json"))["items"] == 20
    assert "neither" in gradsnap("info", tmp_path)


@pytest.mark.slow
def test_fifty_searches_end_well(photo_index, photos) -> None:
    """A third of them aborted at exit, after the right answer was printed."""
    query = str(photos / "cats" / "3.png")
    command = [sys.executable, "-m", "gradsnap", "search", str(photo_index), query]
    for _ in range(50):
        done = subprocess.run([*command, "--json"], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["results"]

"""Hashes from the command line, as codes are: trained, scored, indexed, searched."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import gradsnap as gs
from gradsnap.coders import HASHERS, hamming_distances, load_coder
from gradsnap.data import images as data_images
from gradsnap.data import open_dataset
from tests.commands import said as gradsnap
from tests.training_runs import clusters

QUICK = {"fasthash": ["coder.options.trees=4", "coder.options.pairs=4"]}


SHOWN = ("itq", "sdh", "weighted")
"""Tried by the fast tests; the slow ones try all."""


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return clusters(tmp_path / "vectors.npz", rows=120, dim=12)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, marks=[] if one in SHOWN else [pytest.mark.slow])
        for one in HASHERS
    ],
)
def test_every_hasher_from_training_to_an_answer(kind, vectors, tmp_path) -> None:
    model, index = tmp_path / "model", tmp_path / "v.index"
    settings = ["run.steps=8", "run.batch_size=24", "-q", *QUICK.get(kind, [])]
    gradsnap("train", vectors, "--coder", kind, "--bits", 8, "--out", model, *settings)
    opened = gs.load(model)
    assert type(opened.coder) is HASHERS[kind]
    found = json.loads(gradsnap("evaluate", model, "--json"))
    assert found["MAP of model codes"] == pytest.approx(
        opened.card["figures"]["code_map"]
    )
    assert "relative quantization error" not in found
    gradsnap("index", model, vectors, "--out", index, "-q")
    [answer] = json.loads(gradsnap("search", index, "--id", 3, "-k", 120, "--json"))
    dataset = open_dataset(vectors)
    codes = opened.encode(dataset)
    expected = opened.coder.distances(opened.embed(dataset)[3:4], codes)[0]
    got = {one["id"]: one["distance"] for one in answer["results"]}
    assert [got[i] for i in range(120)] == pytest.approx(expected.tolist(), abs=1e-4)


def test_hashes_without_a_model(vectors, tmp_path) -> None:
    index = tmp_path / "v.index"
    command = ("index", vectors, "--coder", "itq", "--bits", 12, "--out", index)
    facts = json.loads(gradsnap(*command, "--json"))
    assert (facts["coder"], facts["bits"]) == ("ITQHasher", 12)
    answers = json.loads(gradsnap("search", index, vectors, "-k", 120, "--json"))
    rows = open_dataset(vectors).items.batch(torch.arange(120))
    coder = gs.load_index(index).coder
    distances = hamming_distances(coder.encode(rows), coder.encode(rows))
    for row, answer in zip(distances, answers, strict=True):
        got = {one["id"]: one["distance"] for one in answer["results"]}
        assert [got[i] for i in range(120)] == row.tolist()


def test_weighted_hashes_differ_from_plain_ones(vectors, tmp_path) -> None:
    options = ("--bits", 12, "-q", "--out")
    gradsnap("index", vectors, "--coder", "weighted", *options, tmp_path / "w")
    coder = gs.load_index(tmp_path / "w").coder
    assert isinstance(coder, gs.Hasher)
    weights = coder.bit_weights
    assert weights.mean() == pytest.approx(1, abs=1e-5)
    assert len(weights.unique()) > 1
    [answer] = json.loads(gradsnap("search", tmp_path / "w", "--id", 0, "--json"))
    distances = [one["distance"] for one in answer["results"]]
    assert any(distance != round(distance) for distance in distances)


def test_labels_where_they_are_needed(tmp_path) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    np.save(tmp_path / "v.npy", rows)
    command = ("index", tmp_path / "v.npy", "--coder", "sdh", "--bits", 8)
    said = gradsnap(*command, "--out", tmp_path / "i")
    assert "is supervised: fit needs labels" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--coder", "itq", "--bits", "8", "--kind", "inverted"],
            "lists need a quantizer",
        ),
        (["--coder", "itk"], "did you mean 'itq'"),
        (["--coder", "itq", "--bits", "99"], "at most one bit a dimension"),
        (["--lists", "4"], "--lists"),
        (["--coder", "sign", "--bits", "5"], "one bit a dimension"),
    ],
)
def test_what_cannot_be_is_a_sentence(vectors, tmp_path, arguments, words) -> None:
    said = gradsnap("index", vectors, "--out", tmp_path / "i", *arguments)
    assert words in said


def test_a_coder_is_exported_and_read_again(vectors, tmp_path) -> None:
    index = tmp_path / "v.index"
    gradsnap("index", vectors, "--coder", "itq", "--bits", 8, "--out", index, "-q")
    out = tmp_path / "v.faiss"
    gradsnap("export", index, "--to", "faiss", "--out", out)
    import faiss

    binary = faiss.read_index_binary(str(out))
    rows = open_dataset(vectors).items.batch(torch.arange(120))
    hashes = load_coder(next(index.glob("*coder*.safetensors"))).encode(rows).numpy()
    distances, _ = binary.search(hashes[:5], 10)
    ours = gs.load_index(index).search(rows[:5], 10).distances
    assert torch.equal(torch.from_numpy(distances).float(), ours)


@pytest.mark.parametrize("kind", ["exhaustive", "inverted", "multi", "local"])
def test_an_image_is_decoded_once(kind, tmp_path, monkeypatch) -> None:
    generator = np.random.default_rng(0)
    for number in range(40):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 255, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    photos, model = tmp_path / "photos", tmp_path / "model"
    short = ("run.steps=4", "data.side=12", "-q")
    gradsnap("train", photos, "--bits", 8, "--out", model, *short)
    decoded: list[str] = []
    decode = data_images.decode_image

    def noted(path, options=None):
        decoded.append(Path(path).name)
        return decode(path, options)

    monkeypatch.setattr(data_images, "decode_image", noted)
    gradsnap("index", model, photos, "--kind", kind, "--out", tmp_path / "i", "-q")
    assert sorted(decoded) == sorted(f"{number}.png" for number in range(40))


def test_a_search_opens_index_and_model_once(vectors, tmp_path, monkeypatch) -> None:
    model, index = tmp_path / "model", tmp_path / "v.index"
    short = ("run.steps=4", "run.batch_size=24", "-q")
    gradsnap("train", vectors, "--bits", 8, "--out", model, *short)
    gradsnap("index", model, vectors, "--out", index, "-q")
    opened: list[str] = []
    from gradsnap.index import folder_reading
    from gradsnap.inference import model as model_module

    for module, name in ((folder_reading, "read_manifest"), (model_module, "load")):
        function = getattr(module, name)

        def noted(*given, _name=name, _function=function, **options):
            opened.append(_name)
            return _function(*given, **options)

        monkeypatch.setattr(module, name, noted)
    gradsnap("search", index, vectors, "-k", 1, "-q")
    assert sorted(opened) == ["load", "read_manifest"]

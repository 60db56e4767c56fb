"""Model folders are data: they open, also earlier ones, and never run anything."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

import gradsnap as gs
from gradsnap.data import open_dataset
from gradsnap.files import CHECKSUM, write_tensors
from gradsnap.training import run_training
from tests.commands import said
from tests.training_runs import clusters, config_for

EARLIER = Path(__file__).parent / "fixtures" / "model-v1"


def own_network(width: int = 5) -> nn.Module:
    """What a user's package would build."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())


OWN = "tests.test_model_folder:own_network"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return clusters(tmp_path / "vectors.npz")


@pytest.fixture
def model(vectors: Path, tmp_path: Path) -> Path:
    run_training(config_for(vectors), tmp_path / "model")
    return tmp_path / "model"


def change_words(folder: Path, **words: str) -> None:
    """Rewrites what the weights file says of itself."""
    path = folder / "weights.safetensors"
    with safe_open(path, framework="pt") as file:
        before = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    kept = {name: word for name, word in before.items() if name != CHECKSUM}
    write_tensors(path, tensors, kept | words)  # with its checksum right again


def test_a_folder_that_names_a_command_does_not_run_it(model, vectors, tmp_path):
    mark = tmp_path / "ran"
    index = tmp_path / "v.index"
    said("index", model, vectors, "--out", index)
    evil = {"name": "os:system", "options": {"command": f"touch {mark}"}}
    change_words(model, network=json.dumps(evil))
    config = model / "config.toml"
    text = config.read_text().replace('name = "head"', 'name = "os:system"')
    config.write_text(text.replace('"input_dim" = 6', f'"command" = "touch {mark}"'))
    commands = [
        ("info", model),
        ("encode", model, vectors, "--out", tmp_path / "codes.npy"),
        ("search", index, vectors),
        ("evaluate", model),
        ("export", model, "--to", "onnx", "--out", tmp_path / "e.onnx"),
    ]
    for command in commands:
        assert "--network-from package.module:function" in said(*command)
    assert not mark.exists()


def test_an_earlier_folder_that_names_a_command_does_not_run_it(tmp_path):
    shutil.copytree(EARLIER, tmp_path / "m")
    mark = tmp_path / "ran"
    config = tmp_path / "m" / "config.toml"
    text = config.read_text().replace('name = "head"', 'name = "os:system"')
    start, end = text.index('options = {"hidden"'), text.index("# the network's own")
    evil = f'options = {{"command" = "touch {mark}"}}  '
    config.write_text(text[:start] + evil + text[end:])
    assert "network-from" in said("info", tmp_path / "m")
    assert not mark.exists()


def test_settings_cannot_name_a_command_either(vectors, tmp_path) -> None:
    mark = tmp_path / "ran"
    settings = ["network.name=os:system", f'network.options.command="touch {mark}"']
    words = said("train", vectors, *settings, "--out", tmp_path / "m")
    assert "--network-from" in words
    assert not mark.exists()


def test_a_network_of_ones_own_is_named_each_time(tmp_path) -> None:
    options = ["network.options={side = 8, mean = [0.0], std = [1.0], width = 7}"]
    run = ["run.steps=4", "network.dim=8", "--bits", 8, "--out", tmp_path / "m", "-q"]
    said("train", "digits", "--network-from", OWN, *options, *run)
    assert "must not name" in said("info", tmp_path / "m")
    found = json.loads(said("info", tmp_path / "m", "--network-from", OWN, "--json"))
    assert found["network"].startswith(OWN)
    opened = gs.load(tmp_path / "m", network_from=OWN)
    assert opened.embed(torch.zeros(2, 1, 8, 8)).shape == (2, 8)


def test_an_earlier_model_opens_and_encodes_as_it_did() -> None:
    model = gs.load(EARLIER)
    codes = model.encode(open_dataset(EARLIER / "vectors.npz"))
    assert torch.equal(codes, torch.from_numpy(np.load(EARLIER / "codes.npy")))


def test_an_earlier_model_is_evaluated_as_it_was(tmp_path) -> None:
    source = EARLIER / "vectors.npz"
    command = ("evaluate", EARLIER, "--source", source, "--json", "--out", tmp_path)
    found = json.loads(said(*command))
    card = json.loads((EARLIER / "card.json").read_text())
    maps = [value for name, value in found.items() if name.startswith("MAP of")]
    assert maps == pytest.approx(
        [card["figures"]["float_map"], card["figures"]["code_map"]]
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"network": "{}"}, "damaged"),
        ({"network": "no json"}, "damaged"),
        ({"kind": "nothing"}, "kind 'nothing'"),
        ({"config": '{"dim": 3}'}, "does not fit"),
        ({"format": "other"}, "not a model"),
        (
            {"network": '{"name": "head", "options": {"input_dim": 9, "dim": 8}}'},
            "does not fit",
        ),
        ({"network": '{"name": "nowhere", "options": {}}'}, "unknown network"),
    ],
)
def test_damaged_words_are_a_sentence(model, words, sentence) -> None:
    change_words(model, **words)
    assert sentence in said("info", model)


def test_the_card_says_strength_and_seed(vectors, tmp_path) -> None:
    config = config_for(
        vectors, "layer.name=codes", "layer.options.strength=0.2", "run.seed=3"
    )
    trained = run_training(config, tmp_path / "m")
    assert trained is not None
    options = trained.card["card"]["options"]
    assert options["layer.strength"] == "0.2"
    assert options["run.seed"] == "3"
    text = (tmp_path / "m" / "config.toml").read_text()
    assert '"strength" = 0.2, "neighbors" = 150' in text


def test_a_coders_file_is_a_model_for_vectors(vectors, tmp_path) -> None:
    rows = open_dataset(vectors).items.batch(torch.arange(120))
    coder = gs.coders.CODERS["itq"].of_bits(6, 6).fit(rows)
    coder.save(tmp_path / "itq.safetensors")
    said("encode", tmp_path / "itq.safetensors", vectors, "--out", tmp_path / "c.npy")
    codes = torch.from_numpy(np.load(tmp_path / "c.npy"))
    assert torch.equal(codes, coder.encode(rows))

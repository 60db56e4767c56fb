"""The battery of methods: each trains, resumes, saves, indexes and searches."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import gradsnap as gs
from gradsnap.cli.app import app
from gradsnap.coders import CODERS, HASHERS
from gradsnap.coders.coder import Coder
from gradsnap.methods import METHODS, Recipe, every_loss, every_regularizer
from gradsnap.methods.dhn import BimodalPenalty
from gradsnap.training import make_config, run_training
from gradsnap.training.defaults import with_parts
from gradsnap.training.learner import new_method
from tests.training_runs import assert_resumes, clusters, config_for

RUNNER = CliRunner()
LABELS = torch.arange(24) % 3
BITS = 24
SHORT = ("run.steps=150", "run.batch_size=64")
HASHING = [name for name, recipe in METHODS.items() if recipe.coder in HASHERS]
QUANTIZING = [name for name in METHODS if name not in HASHING]
SHOWN = ("codes", "dhn", "dpq")
"""Tried from the command line by the fast tests; the slow ones try all."""

ONE_BY_ONE = [
    pytest.param(name, marks=pytest.mark.slow) if name == "neighbors" else name
    for name in QUANTIZING
]  # test_neighbors.py has the same of neighbours, on data of its own


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return clusters(tmp_path / "vectors.npz", rows=160)


def method_config(source: Path, method: str, *overrides: str):
    """A short run of a method; hashes get as many bits as they allow."""
    words = [f"method.name={method}", "network.options.hidden=[16]", *overrides]
    if METHODS[method].coder == "aq":  # its local search is slow, and tested elsewhere
        words.append("coder.kind=rvq")
    config = config_for(source, *words)
    if METHODS[method].coder in HASHERS:
        tables = config.model_dump(mode="json", exclude_none=True)
        tables["coder"].pop("codebook_size", None)
        tables["network"].pop("dim", None)
        config = make_config(tables)
    return config


def gradsnap(*arguments: object) -> str:
    result = RUNNER.invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.mark.parametrize("method", ONE_BY_ONE)
def test_trains_far_above_chance(method, vectors, tmp_path) -> None:
    config = method_config(vectors, method, "run.steps=100", "optimizer.rate=0.01")
    model = run_training(config, tmp_path / "model")
    assert model is not None
    figure = f"code_{model.card['figure']}"
    assert model.card["figures"][figure] > 0.6  # chance is .25, four classes, or less
    assert model.card["method"] == method


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory) -> Path:
    """A model of the digits by every hash, trained once from the command line."""
    folder: Path = tmp_path_factory.mktemp("methods") / str(request.param)
    words = ["network.name=mlp", "optimizer.rate=0.005", *SHORT]
    said = ["--method", request.param, "--bits", BITS, "--out", folder, "-q"]
    gradsnap("train", "digits", *said, *words)
    return folder


@pytest.mark.parametrize("trained", HASHING, indirect=True)
def test_a_hash_trains_on_digits_far_above_chance(trained: Path) -> None:
    card = gs.load(trained).card
    assert card["method"] == trained.name
    assert card["bits"] == BITS
    assert card["figures"]["code_map"] > 0.5  # ten classes: chance is .10


@pytest.mark.parametrize(
    "trained",
    [
        pytest.param(one, marks=[] if one in ("dhn", "drsch") else [pytest.mark.slow])
        for one in HASHING  # plain bits and weighted ones; the slow tests try all
    ],
    indirect=True,
)
def test_a_hash_scores_again_indexes_and_searches(trained: Path, tmp_path) -> None:
    said = json.loads(gradsnap("evaluate", trained, "--json"))
    figures = gs.load(trained).card["figures"]
    shown = said[f"MAP of {trained.name} codes"]
    assert shown == pytest.approx(figures["code_map"])
    index, one = tmp_path / "digits.index", ["--id", "digits/7", "-k", 5]
    gradsnap("index", trained, "digits", "--out", index, "-q")
    [answer] = json.loads(gradsnap("search", index, *one, "--json"))
    assert answer["results"][0]["distance"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(one, marks=[] if one in SHOWN else [pytest.mark.slow])
        for one in METHODS
    ],
)
def test_resumes_to_the_bit(method, vectors, tmp_path, monkeypatch) -> None:
    config = method_config(vectors, method)
    run_training(config, tmp_path / "whole")
    assert_resumes(config, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(one, marks=[] if one in SHOWN else [pytest.mark.slow])
        for one in ONE_BY_ONE
    ],
)
def test_from_the_command_line_to_an_answer(method, vectors, tmp_path) -> None:
    model, index = tmp_path / "model", tmp_path / "v.index"
    short = ["run.steps=20", "run.batch_size=24", "-q"]
    gradsnap("train", vectors, "--method", method, "--bits", 16, "--out", model, *short)
    said = json.loads(gradsnap("evaluate", model, "--json"))
    card = gs.load(model).card
    names = {"MAP of model codes", f"{card['title']} of codes"}
    [shown] = [said[name] for name in names & said.keys()]
    assert shown == pytest.approx(card["figures"][f"code_{card['figure']}"])
    gradsnap("index", model, vectors, "--out", index, "-q")
    [answer] = json.loads(gradsnap("search", index, "--id", 7, "-k", 5, "--json"))
    first = answer["results"][0]
    assert first["distance"] == pytest.approx(0, abs=1e-3)
    by_vector = json.loads(gradsnap("search", index, vectors, "-k", 1, "--json"))
    assert len(by_vector) == 160


@pytest.mark.parametrize("bits", [4, 8, 12, 24, 32, 48])
@pytest.mark.parametrize("method", HASHING)
def test_makes_hashes_of_every_length(method: str, bits: int) -> None:
    """One or several labels an item; a gradient for the outputs, and codes of them."""
    words = [f"method.name={method}", f"coder.bits={bits}"]
    config = with_parts(make_config({}, words))
    assert config.network.dim == bits
    generator = torch.Generator().manual_seed(0)
    several = torch.rand(24, 3, generator=generator) < 0.5
    for labels in (LABELS, several):
        made = new_method(config, bits, 3, labels)
        outputs = torch.randn(24, bits, generator=generator).requires_grad_()
        passed = made.through_layer(outputs)
        loss = made.similarity_loss(outputs, passed, labels, None)
        (loss + made.regularizer(outputs, made.coder)).backward()
        assert outputs.grad is not None
        assert outputs.grad.isfinite().all()
        assert outputs.grad.any()
        codes = made.coder.fit(outputs.detach(), labels).encode(outputs.detach())
        assert made.coder.bits == bits
        assert codes.shape == (24, -(-bits // 8))


@pytest.mark.parametrize("method", METHODS)
def test_says_what_it_is(method) -> None:
    recipe = METHODS[method]
    assert len(recipe.summary) > 20
    config = make_config(recipe.tables(method))
    assert config.loss.name in every_loss()
    assert config.regularizer.name in every_regularizer()
    assert config.coder.kind in CODERS


@pytest.mark.parametrize("name", every_regularizer())
def test_every_regularizer_is_a_finite_scalar(name: str) -> None:
    embeddings = torch.randn(24, 8, generator=torch.Generator().manual_seed(0))
    coder = gs.ProductQuantizer(8, 2, 4).fit(embeddings)
    term = every_regularizer()[name]()(embeddings.requires_grad_(), coder)
    assert term.ndim == 0
    assert term >= 0
    if term.requires_grad:
        term.backward()
        assert embeddings.grad is not None
        assert embeddings.grad.isfinite().all()


def test_a_quantization_penalty_says_what_it_needs() -> None:
    hasher = HASHERS["sign"](4, 4)
    with pytest.raises(gs.InputError, match="needs a quantizer"):
        gs.QuantizationPenalty()(torch.zeros(3, 4), hasher)


def test_bimodal_penalty_equals_its_formula() -> None:
    rows = 3 * torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).double()
    expected = sum(
        0.2 * float(torch.log(torch.cosh(value.tanh().abs() - 1))) / 5
        for row in rows
        for value in row
    )
    penalty = BimodalPenalty(0.2)
    coder = HASHERS["sign"](4, 4)
    assert float(penalty(rows, coder)) == pytest.approx(expected)
    torch.autograd.gradcheck(lambda x: penalty(x, coder), rows.requires_grad_())
    assert float(penalty(torch.full((2, 4), 1000.0), coder)) < float("inf")


class OwnLoss(nn.Module):
    """Same class: near the class mean."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        means = torch.stack([embeddings[labels == one].mean(0) for one in labels])
        return (embeddings - means).square().mean() - means.var(dim=0).mean().log()


class OwnRegularizer(nn.Module):
    """Bits that are balanced; looks at the coder, which it is given."""

    def __init__(self, strength: float = 0.1) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, embeddings: Tensor, coder: Coder) -> Tensor:
        assert coder.bits == embeddings.shape[1]
        return self.strength * embeddings.mean(dim=0).square().sum()


def test_a_method_is_one_entry(vectors, tmp_path, monkeypatch) -> None:
    """Its own loss, its own regularizer and binary codes, with nothing else told."""
    recipe = Recipe("for this test alone", OwnLoss, OwnRegularizer, coder="sign")
    monkeypatch.setitem(METHODS, "own", recipe)
    config = method_config(vectors, "own", "regularizer.options.strength=0.5")
    model = run_training(config, tmp_path / "model")
    assert model is not None
    assert model.card["card"]["options"]["regularizer.strength"] == "0.5"
    assert (model.card["loss"], model.card["coder"]) == ("own", "sign")
    assert isinstance(gs.load(tmp_path / "model").coder, gs.Hasher)

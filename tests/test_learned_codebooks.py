"""Codebooks that learn by gradient: what reaches them, and runs that train them."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

import gradsnap as gs
from gradsnap.coders.quantizers import QUANTIZERS, Quantizer
from gradsnap.layers import build_layer
from gradsnap.training import make_config, run_training, to_toml
from tests.conftest import assert_same_state
from tests.test_snapping import backward, fitted, rows
from tests.test_training_processes import OVERRIDES, torchrun
from tests.training_runs import assert_resumes, checkpoint, clusters, config_for

LAYERS = ["codes", "straight-through", "straight-through-codes"]


def learning(kind: str = "pq") -> Quantizer:
    quantizer = copy.deepcopy(fitted(kind))
    quantizer.codebooks.requires_grad_()
    return quantizer


def change_along(quantizer: Quantizer, y: Tensor, g: Tensor, way: Tensor) -> float:
    """How ⟨g, ŷ⟩ changes, codes kept, when the codebooks go one ``way``."""
    moved, codes = copy.deepcopy(quantizer), quantizer.encode(y)
    moved.codebooks.data += way
    return float((g * (moved.decode(codes) - quantizer.decode(codes))).sum())


@pytest.mark.parametrize("kind", QUANTIZERS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_codeword_gets_the_gradient_of_its_rows(name: str, kind: str) -> None:
    quantizer, y, g = learning(kind), rows(9, 1), rows(9, 2)
    expected = backward(build_layer(name, fitted(kind)), y, g)
    found = backward(build_layer(name, quantizer), y, g)
    assert torch.equal(found, expected)  # the embeddings' is as it was
    slope = quantizer.codebooks.grad
    assert slope is not None
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        way = torch.randn(slope.shape, generator=generator, dtype=slope.dtype)
        expected_change = change_along(quantizer, y, g, way)  # ŷ is linear in codewords
        assert float((slope * way).sum()) == pytest.approx(expected_change)


def test_nothing_reaches_codewords_that_do_not_learn() -> None:
    quantizer, y = fitted(), rows(9, 1).requires_grad_()
    assert not quantizer(y).requires_grad
    layer = build_layer("codes", quantizer)
    layer(y).sum().backward()
    assert quantizer.codebooks.grad is None


def test_the_penalty_pulls_codewords_to_their_rows() -> None:
    quantizer, y = learning(), rows(30, 1)
    before = quantizer.error(y)
    gs.QuantizationPenalty(1.0)(y, quantizer).backward()
    torch.optim.SGD([quantizer.codebooks], lr=1.0).step()
    assert quantizer.error(y) < before


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_fitting_copying_and_saving_go_on_as_before(kind, tmp_path: Path) -> None:
    quantizer = copy.deepcopy(fitted(kind)).float()
    quantizer.codebooks.requires_grad_()
    quantizer.save(tmp_path / "q.safetensors")
    assert_same_state(quantizer, gs.load_coder(tmp_path / "q.safetensors"))
    x = rows(200, 3).float()
    copied = copy.deepcopy(quantizer).fit(x).update(x)
    assert copied.codebooks.is_leaf
    assert not quantizer.tables(x).entries.requires_grad


def learned(source: Path, *overrides: str):
    return config_for(source, "method.name=codes", "coder.learn=gradient", *overrides)


@pytest.mark.parametrize("learn", ["gradient", "both", "fit"])
def test_a_run_learns_and_resumes_to_the_bit(
    learn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = clusters(tmp_path / "v.npz")
    config = learned(source, f"coder.learn={learn}", "coder.update_every=3")
    model = run_training(config, tmp_path / "whole")
    assert model is not None
    assert not model.coder.codebooks.requires_grad
    run_training(learned(source, "coder.rate=0.0"), tmp_path / "still")
    assert_resumes(config, tmp_path, monkeypatch)
    words = "coder.codebooks"
    ours, still = checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "still")
    assert not torch.equal(ours[words], still[words])


def test_the_optimizer_alone_moves_them(tmp_path: Path) -> None:
    config = learned(clusters(tmp_path / "v.npz"), "coder.rate=0.0")
    run_training(config, tmp_path / "m")
    first = checkpoint(tmp_path / "m", "best")["coder.codebooks"]
    assert torch.equal(first, checkpoint(tmp_path / "m")["coder.codebooks"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["layer.name=snapping", "run.steps=6", "run.batch_size=24"],
            "a loss that depends on the codewords",
        ),
        (["method.name=dhn"], "SignHasher has none"),
    ],
)
def test_what_cannot_learn_is_refused_in_words(words, sentence, tmp_path) -> None:
    tables = {"data": {"source": str(clusters(tmp_path / "v.npz"))}}
    config = make_config(tables, [*words, "coder.bits=8", "coder.learn=gradient"])
    with pytest.raises(gs.InputError, match=sentence):
        run_training(config, tmp_path / "m")


@pytest.mark.slow
@pytest.mark.usefixtures("all_fits")
@pytest.mark.parametrize("regularizer", ["none", "quantization"])
def test_two_processes_equal_one(tmp_path: Path, regularizer: str) -> None:
    """What comes through the layer is summed, what every process knows is not."""
    config = learned(
        clusters(tmp_path / "vectors.npz"),
        *OVERRIDES,
        f"regularizer.name={regularizer}",
    )
    run_training(config, tmp_path / "one")
    (tmp_path / "run.toml").write_text(to_toml(config))
    done = torchrun(
        *("-m", "gradsnap", "train", "--config", str(tmp_path / "run.toml")),
        *("--out", str(tmp_path / "two")),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=1e-4)

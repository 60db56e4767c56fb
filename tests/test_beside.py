"""A plain network beside a run: both trained, the better one kept."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import gradsnap as gs
from gradsnap.errors import InputError
from gradsnap.inference.model import Model
from gradsnap.training import (
    beside,
    make_config,
    run,
    run_beside_plain,
    run_training,
)
from gradsnap.training.advice import advice
from gradsnap.training.defaults import settled
from tests.training_runs import SETTINGS, clusters, config_for


def weights(model: Model) -> torch.Tensor:
    found: torch.Tensor = model.network.state_dict()["feat.weight"]
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return clusters(tmp_path / "v.npz")


@pytest.mark.slow
def test_what_is_kept_is_trained_once_more(source: Path, tmp_path: Path) -> None:
    config = config_for(source)
    alone = run_training(config, tmp_path / "alone")
    plain = run_training(config_for(source, "layer.name=plain"), tmp_path / "plain")
    both = run_beside_plain(config, tmp_path / "both")
    assert alone is not None
    assert plain is not None
    assert both is not None
    figures = both.card["beside"]["figures"]
    assert figures == {"trained": alone.card["figures"], "plain": plain.card["figures"]}
    is_ours = both.card["beside"]["kept"] == "trained"
    first, words = (alone, ()) if is_ours else (plain, ("layer.name=plain",))
    chosen = first.card["step"], first.card["coder_fitted_to"]
    again = beside.once_more(config_for(source, *words), *chosen)
    once = run_training(again, tmp_path / "once")
    assert once is not None
    assert torch.equal(weights(both), weights(once))
    assert both.card["figures"] == once.card["figures"]
    assert not torch.equal(weights(both), weights(first))
    assert both.card["validation_by_source"] == first.card["validation_by_source"]
    assert not (tmp_path / "both" / "plain").exists()
    assert not (tmp_path / "both" / "trained").exists()
    written = json.loads((tmp_path / "both" / "card.json").read_text())
    assert written["beside"] == both.card["beside"]


@pytest.mark.parametrize("worth", [-2.0, 2.0])
def test_where_new_items_are_searched_the_first_run_is_the_last(
    worth: float, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "WORTH", worth)  # plain always wins, or never
    options = "{queries_per_class=5, training_per_class=8, training_in_database=false}"
    words = ["data.protocol=paper", f"data.protocol_options={options}"]
    config = config_for(source, *words)
    assert not settled(config).split.validates_on_training
    named = ["layer.name=plain"] if worth < 0 else []
    alone = run_training(config_for(source, *words, *named), tmp_path / "alone")
    model = run_beside_plain(config, tmp_path / "m")
    assert alone is not None
    assert model is not None
    assert torch.equal(weights(model), weights(alone))
    assert model.card["figures"] == alone.card["figures"]
    assert torch.equal(weights(gs.load(tmp_path / "m")), weights(alone))
    assert (tmp_path / "m" / "log.jsonl").is_file()
    kept = {"plain", "trained"} & {one.name for one in (tmp_path / "m").iterdir()}
    assert not kept


@pytest.mark.parametrize("worth", [-2.0, 2.0])
def test_the_validation_part_chooses(
    worth: float, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "WORTH", worth)  # plain always wins, or never
    model = run_beside_plain(config_for(source), tmp_path / "m")
    assert model is not None
    kept = "plain" if worth < 0 else "trained"
    opened = gs.load(tmp_path / "m")
    assert opened.card["beside"]["kept"] == model.card["beside"]["kept"] == kept
    assert (opened.card["layer"] == "plain") == (kept == "plain")
    layer = "plain" if kept == "plain" else "codes"
    assert f'name = "{layer}"' in (tmp_path / "m" / "config.toml").read_text()
    x = torch.randn(5, 6)
    assert torch.equal(opened.encode(x), model.encode(x))


def test_snapped_codes_are_tried_where_codes_are_scarce(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["coder.kind=pq", "coder.bits=4", "coder.codebook_size=2"]
    scarce = config_for(source, *words)
    monkeypatch.setattr(beside, "WORTH", -2.0)  # the last one always wins
    model = run_beside_plain(scarce, tmp_path / "m")
    assert model is not None
    assert list(model.card["beside"]["figures"]) == ["trained", "plain", "snapped"]
    assert model.card["beside"]["kept"] == "snapped"
    assert model.card["layer"] == "codes"
    assert gs.load(tmp_path / "m").card["beside"] == model.card["beside"]
    assert "snapped codes rank better" in " ".join(advice(model.card))
    assert not (tmp_path / "m" / "snapped").exists()


def test_who_names_a_layer_or_has_codes_to_spare_gets_no_third_run(
    source: Path,
) -> None:
    words = ["coder.kind=pq", "coder.bits=4"]
    plenty = config_for(source, *words, "coder.codebook_size=16")
    named = config_for(source, *words, "coder.codebook_size=2", "layer.name=soft-codes")
    for config in (plenty, named):
        assert list(beside.others_of(config, settled(config))) == ["plain"]


def test_without_a_validation_part_it_is_a_single_run(
    source: Path, tmp_path: Path
) -> None:
    model = run_beside_plain(config_for(source, "data.validation=0.0"), tmp_path / "m")
    assert model is not None
    assert "beside" not in model.card


@pytest.mark.parametrize("own", ["layer.name=plain", "method.name=dhn"])
def test_what_stands_alone_trains_on_the_same_items(
    own: str, source: Path, tmp_path: Path
) -> None:
    """Cards whose training parts differ could not be compared."""
    data = SETTINGS["data"] | {"source": str(source)}
    tables = SETTINGS | {"data": data, "coder": {"bits": 8}}
    alone = run_beside_plain(make_config(tables, [own]), tmp_path / "alone")
    both = run_beside_plain(config_for(source), tmp_path / "both")
    assert alone is not None
    assert both is not None
    assert list(alone.card["beside"]["figures"]) == ["trained"]
    assert alone.card["card"]["split_hashes"] == both.card["card"]["split_hashes"]


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_an_interrupted_set_of_runs_goes_on(
    runs: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(source)
    whole = run_beside_plain(config, tmp_path / "whole")
    train = run.train_settled
    calls = []

    def stopping(ready, out, **options):
        calls.append(out)
        if len(calls) == runs:
            raise KeyboardInterrupt
        return train(ready, out, **options)

    with monkeypatch.context() as patch:
        patch.setattr(beside, "train_settled", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_beside_plain(config, tmp_path / "parts")
    if runs > 1:  # one is finished
        with pytest.raises(InputError, match=r"run\.seed: 0 is not 7"):
            run_beside_plain(config_for(source, "run.seed=7"), tmp_path / "parts")
    parts = run_beside_plain(config, tmp_path / "parts")
    assert whole is not None
    assert parts is not None
    assert parts.card["beside"] == whole.card["beside"]
    assert torch.equal(weights(whole), weights(parts))


@pytest.mark.parametrize("name", ["copytree", "move"])
def test_a_kill_while_the_model_is_put_in_its_place_loses_nothing(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, name, killed)
        with pytest.raises(KeyboardInterrupt):
            run_beside_plain(config_for(source), tmp_path / "m")
    calls = []
    monkeypatch.setattr(beside, "train_settled", lambda *_, **__: calls.append(1))
    model = run_beside_plain(config_for(source), tmp_path / "m")
    assert calls == []
    assert model is not None
    assert set(model.card["beside"]["figures"]) == {"trained", "plain"}
    assert "cache =" not in (tmp_path / "m" / "config.toml").read_text()


def card(floats: float, codes: float, bits: int = 32, **more: Any) -> dict[str, Any]:
    figures = {"float_map": floats, "code_map": codes}
    return {"bits": bits, "figure": "map", "figures": figures, **more}


def test_advice_names_what_is_short() -> None:
    assert "--bits 64" in advice(card(0.9, 0.8))[0]
    assert "--bits 16" in advice(card(0.9, 0.9))[0]
    assert "tune --bits 32" in advice(card(0.9, 0.8, 24), asked=32)[0]
    assert advice(card(0.9, 0.9, 8, classes=["a"] * 50)) == []  # 4 bits are too few
    assert any("run.steps" in one for one in advice(card(0.3, 0.3)))
    assert not any("run.steps" in one for one in advice(card(0.9, 0.9)))
    kept = advice(card(0.9, 0.9, beside={"kept": "plain"}))
    assert any("did not pay" in one for one in kept)
    assert any("snapped" in one for one in advice(card(0.9, 0.9, snapped=False)))


def test_a_run_without_figures_gets_no_advice() -> None:
    assert advice({"bits": 8, "figures": {}}) == []


def test_a_layer_that_does_not_fit_is_refused_before_anything_trains(
    source: Path, tmp_path: Path
) -> None:
    words = ["coder.kind=rvq", "layer.name=soft-codes"]
    with pytest.raises(InputError, match=r"needs a quantizer of the product family"):
        run_beside_plain(config_for(source, *words), tmp_path / "m")
    assert not (tmp_path / "m").exists()

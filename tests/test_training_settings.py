"""Configurations: TOML, overrides, refusals, and back to TOML."""

import dataclasses
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsnap.errors import InputError
from gradsnap.training import TrainingConfig, make_config, read_toml, to_toml
from gradsnap.training.learner import codebook_size, new_quantizer
from gradsnap.training.settings import changed, differing


def test_nothing_given_is_the_default() -> None:
    assert make_config() == TrainingConfig()


def test_overrides_come_after_tables_and_in_order() -> None:
    overrides = ["run.steps=500", "run.steps=600", "coder.kind=opq"]
    config = make_config({"run": {"steps": 400, "seed": 3}}, overrides)
    assert (config.run.steps, config.run.seed) == (600, 3)
    assert config.quantizer.kind == "opq"


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("optimizer.rate=1", "optimizer", "rate", 1.0),
        ("data.augment=flip,crop", "data", "augment", ("flip", "crop")),
        ('data.augment=["projective"]', "data", "augment", ("projective",)),
        ("network.options.hidden=[64, 32]", "network", "options", {"hidden": [64, 32]}),
        ("data.skip_bad=true", "data", "skip_bad", True),
        ("data.source=a folder/with = sign", "data", "source", "a folder/with = sign"),
    ],
)
def test_values_of_overrides(override, section, key, value) -> None:
    assert getattr(getattr(make_config({}, [override]), section), key) == value


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("run.step=5", ["'step'", "did you mean 'steps'", "batch_size"]),
        ("runs.steps=5", ["'runs'", "did you mean 'run'", "quantizer"]),
        ("coder.kind=pqq", ["'pqq'", "pq, opq, rvq"]),
        ("data.augment=flip,rotate", ["'rotate'", "projective, flip, crop"]),
        ("run.steps=0", ["run.steps", "at least 1", "got 0"]),
        ("run.steps=many", ["run.steps", "a whole number", "'many'"]),
        ("run.steps=true", ["run.steps", "a whole number"]),
        ("optimizer.rate=nan", ["optimizer.rate", "finite"]),
        ("data.validation=1.5", ["data.validation", "at most 0.9", "1.5"]),
        ("steps=5", ["section.key=value", "'steps=5'"]),
        ("run.steps", ["section.key=value"]),
        ("run.steps.more=3", ["run.steps"]),
        ("network.options=3", ["network.options", "a table"]),
    ],
)
def test_refusals_name_the_value_and_the_choices(override: str, words) -> None:
    with pytest.raises(InputError) as caught:
        make_config({}, [override])
    for word in words:
        assert word in str(caught.value)


def test_every_field_is_documented() -> None:
    for section in dataclasses.fields(TrainingConfig):
        for field in dataclasses.fields(getattr(TrainingConfig(), section.name)):
            assert len(field.metadata["about"]) > 5, field.name


def test_toml_round_trip() -> None:
    config = make_config(
        {
            "data": {"source": 'a "quoted" \\ path', "augment": ["flip"]},
            "network": {"options": {"hidden": [3, 4], "normalization": "length"}},
            "optimizer": {"rate": 1e-7, "clip": 2},
        }
    )
    assert make_config(tomllib.loads(to_toml(config))) == config


@given(st.text(st.characters(exclude_categories=["Cs"], min_codepoint=32)))
def test_any_path_survives_toml(path: str) -> None:
    config = make_config({"data": {"source": path}})
    assert make_config(tomllib.loads(to_toml(config))) == config


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    bad = tmp_path / "run.toml"
    bad.write_text("run = [")
    with pytest.raises(InputError, match=r"run.toml is not TOML"):
        read_toml(bad)
    with pytest.raises(InputError, match=r"cannot read .*none.toml"):
        read_toml(tmp_path / "none.toml")


def test_differing_names_keys() -> None:
    other = changed(TrainingConfig(), run={"steps": 3}, data={"root": "x"})
    assert differing(TrainingConfig(), other) == [
        "data.root: None is not 'x'",
        "run.steps: 2000 is not 3",
    ]


@pytest.mark.parametrize("bits", range(1, 129))
def test_every_number_of_bits_divides_or_is_refused(bits: int) -> None:
    config = make_config({"quantizer": {"bits": bits}})
    assert bits % (codebook_size(bits).bit_length() - 1) == 0
    if bits // (codebook_size(bits).bit_length() - 1) <= 64:
        assert new_quantizer(config.quantizer, 128, 0).bits == bits


def test_bits_that_do_not_divide_are_refused() -> None:
    config = make_config({"quantizer": {"bits": 20, "codebook_size": 256}})
    with pytest.raises(InputError, match=r"bits 20 .* multiple of 8"):
        new_quantizer(config.quantizer, 64, 0)
    config = make_config({"quantizer": {"options": {"beams": 3}}})
    with pytest.raises(InputError, match="no option beams"):
        new_quantizer(config.quantizer, 64, 0)

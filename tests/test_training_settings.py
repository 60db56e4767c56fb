"""Configurations: TOML, overrides, refusals, and back to TOML."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsnap.coders.quantizers.quantizer import size_of_codebooks
from gradsnap.errors import InputError
from gradsnap.layers import CODE_LAYERS
from gradsnap.training import TrainingConfig, make_config, read_toml, to_toml
from gradsnap.training.defaults import LATE, settled, with_parts
from gradsnap.training.learner import new_coder, new_method
from gradsnap.training.settings import changed, differing
from tests.training_runs import clusters


def test_nothing_given_is_the_default() -> None:
    assert make_config() == make_config({"method": {"name": "codes"}})
    assert make_config().run == TrainingConfig().run


def test_overrides_come_after_tables_and_in_order() -> None:
    overrides = ["run.steps=500", "run.steps=600", "coder.kind=opq"]
    config = make_config({"run": {"steps": 400, "seed": 3}}, overrides)
    assert (config.run.steps, config.run.seed) == (600, 3)
    assert config.coder.kind == "opq"


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
        ("runs.steps=5", ["'runs'", "did you mean 'run'", "coder"]),
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
    for name in TrainingConfig.model_fields:
        section = type(getattr(TrainingConfig(), name))
        for key, field in section.model_fields.items():
            assert len(field.description or "") > 5, f"{name}.{key}"


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
    config = make_config({"coder": {"bits": bits}})
    each = size_of_codebooks(bits).bit_length() - 1
    assert bits % each == 0
    if bits // each <= 64:
        assert new_coder(config.coder, 128, 0).bits == bits


def test_bits_that_do_not_divide_are_refused() -> None:
    config = make_config({"coder": {"bits": 20, "codebook_size": 256}})
    with pytest.raises(InputError, match=r"20 bits .* multiple of 8"):
        new_coder(config.coder, 64, 0)
    config = make_config({"coder": {"options": {"beams": 3}}})
    with pytest.raises(InputError, match="no option beams"):
        new_coder(config.coder, 64, 0)
    config = make_config({"coder": {"kind": "itq", "codebook_size": 4}})
    with pytest.raises(InputError, match="codebook_size 4 is for quantizers"):
        new_coder(config.coder, 64, 0)


def test_a_method_chooses_parts_and_the_user_has_the_last_word() -> None:
    config = make_config({"method": {"name": "dhn"}})
    assert (config.loss.name, config.regularizer.name) == ("logistic", "dhn")
    assert (config.layer.name, config.coder.kind) == ("tanh", "sign")
    other = make_config({}, ["method.name=dhn", "loss.name=cosine", "coder.kind=itq"])
    assert (other.loss.name, other.coder.kind) == ("cosine", "itq")
    with pytest.raises(InputError, match=r"'dhm'; choose from snapping, codes"):
        make_config({"method": {"name": "dhm"}})


def test_former_names_still_work() -> None:
    words = ["quantizer.codebook_size=4", "quantizer.decay=0.9", "snapping.layer=plain"]
    config = make_config({}, words)
    assert config.coder.codebook_size == 4
    assert config.coder.options == {"decay": 0.9}
    assert config.layer.name == "plain"
    config = make_config({}, ["snapping.strength=0.1", "snapping.warmup=0.5"])
    assert config.layer.options == {"strength": 0.1}
    assert config.layer.warmup == 0.5
    with pytest.raises(InputError, match=r"section is now called layer"):
        make_config({}, ["snapping.force=1"])


def test_the_configuration_records_what_is_used() -> None:
    config = with_parts(make_config())
    assert (config.layer.name, config.coder.learn) == ("soft-codes", "gradient")
    assert config.layer.options == {"temperature": 0.03}
    other = with_parts(make_config({"coder": {"kind": "rvq"}}))
    assert (other.layer.name, other.coder.learn) == ("codes", "stream")
    assert other.layer.options == {"strength": 0.3, "neighbors": 150}
    assert config.loss.options == {"temperature": 1.0}
    paper = with_parts(make_config({"method": {"name": "snapping"}}))
    assert (paper.layer.name, paper.loss.options) == ("snapping", {"margin": 1.0})
    hashes = with_parts(make_config({"coder": {"kind": "itq"}}))
    assert (hashes.layer.name, hashes.layer.options) == ("plain", {})
    assert with_parts(make_config({"method": {"name": "dhn"}})).network.dim == 32


@pytest.mark.parametrize("layer", ["plain", "straight-through"])
def test_options_a_layer_does_not_have_are_refused(layer: str) -> None:
    config = make_config({}, [f"layer.name={layer}", "layer.options.strength=0.1"])
    with pytest.raises(InputError, match=f"layer '{layer}' has no option strength"):
        new_method(config, 32, 10)


def test_a_hasher_has_no_codewords_to_snap_to() -> None:
    config = make_config({}, ["layer.name=snapping", "coder.kind=lsh"])
    with pytest.raises(InputError, match="needs a quantizer"):
        new_method(config, 32, 10)


def test_values_of_options_are_checked() -> None:
    config = make_config({}, ["loss.name=triplet", 'loss.options={margin="x"}'])
    with pytest.raises(InputError, match=r"margin .* must be float, got 'x'"):
        new_method(config, 32, 10)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], LATE),
        (["layer.warmup=0.2"], 0.2),
        (["layer.name=plain"], 0.2),
        (["method.name=jpq"], 0.5),
    ],
)
def test_a_whole_network_learns_through_codes_late(
    words: list[str], expected: float
) -> None:
    config = settled(make_config({}, ["data.source=digits", *words])).config
    assert config.layer.warmup == expected


def test_a_layer_on_ready_vectors_learns_through_codes_early(tmp_path: Path) -> None:
    source = clusters(tmp_path / "rows.npz")
    config = settled(make_config({}, [f"data.source={source}"])).config
    assert config.layer.name in CODE_LAYERS
    assert config.layer.warmup == 0.2

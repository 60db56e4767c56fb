"""Parts by their names: what is passed on, and the sentences for what cannot be."""

from collections.abc import Callable
from typing import Literal, TypedDict, Unpack

import pytest
from torch import nn

from gradsnap import InputError
from gradsnap.coders.hashers import HASHERS
from gradsnap.coders.quantizers import QUANTIZERS
from gradsnap.layers import LAYERS
from gradsnap.losses import LOSSES
from gradsnap.networks import NETWORKS
from gradsnap.registry import as_tuple, build, chosen, options_of
from gradsnap.triplets import TRIPLETS

FAMILIES: dict[str, dict[str, Callable[..., object]]] = {
    "loss": {**LOSSES},
    "network": {**NETWORKS},
    "layer": {**LAYERS},
    "quantizer": {**QUANTIZERS},
    "hasher": {**HASHERS},
    "triplets": {**TRIPLETS},
}


class Common(TypedDict, total=False):
    decay: float
    seed: int


class Plain:
    def __init__(
        self, dim: int, width: float = 1.0, *, decay: float = 0.9, seed: int = 0
    ) -> None:
        self.all: dict[str, object] = {
            "dim": dim,
            "width": width,
            "decay": decay,
            "seed": seed,
        }


class Typed(Plain):
    """Its parent's width is its own business."""

    def __init__(self, dim: int, rounds: int = 3, **common: Unpack[Common]) -> None:
        super().__init__(dim, 2.0, **common)
        self.all["rounds"] = rounds


class Passing(Plain):
    def __init__(self, *, rounds: int = 3, **common: float) -> None:
        super().__init__(**common)  # type: ignore[arg-type]
        self.all["rounds"] = rounds


class Inheriting(Passing):
    pass


class Stateless(nn.Module):
    pass


def record(
    sizes: tuple[int, ...] = (),
    name: str | None = None,
    mode: Literal["fast", "slow"] = "fast",
    flag: bool = False,
    **_: object,
) -> dict[str, object]:
    return {"sizes": sizes, "name": name, "mode": mode, "flag": flag}


def fail(rate: object = 1) -> None:
    raise ValueError(f"cannot use {rate}")


PARTS: dict[str, Callable[..., object]] = {
    "plain": Plain,
    "typed": Typed,
    "passing": Passing,
    "record": record,
    "fail": fail,
}


def made(part: str, given: dict[str, object], **options: object) -> dict[str, object]:
    built = build(PARTS, part, "part", given, options)
    if isinstance(built, dict):
        return built
    assert isinstance(built, Plain)
    return built.all


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (Plain, "dim width decay seed"),
        (Typed, "dim rounds decay seed"),
        (Passing, "rounds dim width decay seed"),
        (Inheriting, "rounds dim width decay seed"),
        (Stateless, ""),
        (record, "sizes name mode flag"),
    ],
)
def test_options_are_the_named_ones_and_those_passed_on(builder, expected) -> None:
    assert options_of(builder) == expected.split()


def test_sizes_go_where_they_are_taken_and_options_win() -> None:
    sizes: dict[str, object] = {"dim": 4, "seed": 7, "num_classes": 3}
    expected = {"dim": 4, "width": 1.0, "decay": 0.9, "seed": 7}
    assert made("plain", sizes) == expected
    assert made("typed", sizes, decay=1)["decay"] == 1
    assert made("passing", sizes, rounds=5, width=2) == expected | {
        "rounds": 5,
        "width": 2,
    }
    assert made("plain", sizes, seed=1)["seed"] == 1


def test_lists_become_tuples() -> None:
    assert made("record", {}, sizes=[3, 4])["sizes"] == (3, 4)
    assert as_tuple([1, [2]]) == (1, (2,))
    assert as_tuple("ab") == "ab"


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        build(PARTS, "plane", "part", {}, {})
    assert str(caught.value) == (
        "unknown part 'plane'; choose one of plain, typed, passing, record, fail "
        "(did you mean 'plain'?)"
    )
    with pytest.raises(InputError, match=r"one of plain, .*fail, LIB/NAME$"):
        chosen(PARTS, "x", "part", also=["LIB/NAME"])
    assert chosen(PARTS, "plain", "part") is Plain


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("plain", {"widht": 1.0}, "'plain' has no option widht; it has width, decay, "),
        ("plain", {"widht": 1.0}, r"\(did you mean width\?\)"),
        ("typed", {"width": 1.0}, "'typed' has no option width; it has rounds"),
        ("record", {"other": 1}, "has no option other; it has sizes"),
        ("plain", {"width": "x"}, "width of the part 'plain' must be float, got 'x'"),
        ("plain", {"seed": 1.5}, "seed of the part 'plain' must be int, got 1.5"),
        ("plain", {"seed": True}, "must be int, got True"),
        ("plain", {"seed": 2**63}, "seed .*must fit into 64 bits, got 92233"),
        ("typed", {"decay": "x"}, "decay of the part 'typed' must be float, got 'x'"),
        ("record", {"sizes": 3}, r"must be tuple\[int, ...\], got 3"),
        ("record", {"sizes": [3, "x"]}, r"must be tuple\[int, ...\], got \(3, 'x'\)"),
        ("record", {"name": 3}, r"name .*must be str \| None, got 3"),
        ("record", {"flag": 1}, "must be bool, got 1"),
        ("record", {"mode": "odd"}, r"must be .*Literal\['fast', 'slow'\], got 'odd'"),
        ("fail", {"rate": 2}, "cannot build the part 'fail' with rate=2: cannot use 2"),
        ("fail", {}, "cannot build the part 'fail' with no options: cannot use 1"),
    ],
)
def test_options_that_cannot_be_used_are_named(name, options, message) -> None:
    with pytest.raises(InputError, match=message):
        build(PARTS, name, "part", {"dim": 3}, options)


def test_needed_options_are_named() -> None:
    with pytest.raises(InputError, match=r"'plain' needs the option dim; it has dim"):
        build(PARTS, "plain", "part", {}, {})


def test_values_of_the_right_kind_are_let_through() -> None:
    assert made("record", {}, name=None, mode="slow")["mode"] == "slow"
    assert made("plain", {}, dim=3, width=2)["width"] == 2


@pytest.mark.parametrize("what", FAMILIES)
def test_every_part_refuses_an_option_it_does_not_have(what: str) -> None:
    for name in FAMILIES[what]:
        with pytest.raises(InputError, match=f"the {what} '{name}' has no option quux"):
            build(FAMILIES[what], name, what, {}, {"quux": 1})


def test_a_margin_that_is_no_number_is_refused_with_a_sentence() -> None:
    message = "the option margin of the loss 'triplet' must be float, got 'x'"
    with pytest.raises(InputError, match=message):
        build(LOSSES, "triplet", "loss", {}, {"margin": "x"})

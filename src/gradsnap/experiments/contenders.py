"""What is compared: a name, its settings, and what is chosen for it by validation."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gradsnap.coders import CODERS, QUANTIZERS
from gradsnap.layers import LAYERS
from gradsnap.methods import METHODS, Recipe, every_loss, every_regularizer
from gradsnap.methods.method import Part
from gradsnap.registry import default_options

RATES = (0.003, 0.01)
"""Learning rates to choose from, where nothing else is said."""

SPREAD = 3.0
"""A strength is tried at its default, a third of it and thrice."""

STRENGTH = "layer.options.strength"


class Choice(NamedTuple):
    """What is chosen for a contender on the validation part."""

    rate: float
    strength: float | None = None
    """λ, μ or τ; None where the contender has none."""

    def __str__(self) -> str:
        strength = "" if self.strength is None else f", strength {self.strength:g}"
        return f"rate {self.rate:g}{strength}"


@dataclass(frozen=True)
class Contender:
    """A trained row of a table.

    Args:
        name: shown in the table.
        settings: ``section.key=value``, the same in all its runs.
        key: the setting that its strength is; empty where it has none.
        strengths: to choose from, the likeliest first.
        rates: to choose from, in order.
    """

    name: str
    settings: tuple[str, ...]
    key: str = ""
    strengths: tuple[float, ...] = ()
    rates: tuple[float, ...] = RATES

    def choices(self) -> list[Choice]:
        """Every rate with every strength.

        >>> [str(one) for one in Contender("m", (), "loss.mixture", (1,)).choices()]
        ['rate 0.003, strength 1', 'rate 0.01, strength 1']
        """
        strengths = self.strengths or (None,)
        return [Choice(rate, one) for rate in self.rates for one in strengths]

    def overrides(self, choice: Choice) -> list[str]:
        """The settings of a run with that choice."""
        own = [] if choice.strength is None else [f"{self.key}={choice.strength}"]
        return [*self.settings, f"optimizer.rate={choice.rate}", *own]

    @property
    def trials(self) -> int:
        """How many runs ``search`` takes at most."""
        return len(self.rates) + max(len(self.strengths) - 1, 0)

    def search(self) -> Generator[Choice, float, Choice]:
        """Asks for the validation MAP of one choice after the other; returns the best.

        First it climbs over the rates at the likeliest strength, from the middle one
        in steps while the figure rises, then over the strengths at the best rate.
        """
        strength = self.strengths[0] if self.strengths else None
        middle = self.rates[(len(self.rates) - 1) // 2]
        by_rate = [Choice(rate, strength) for rate in self.rates]
        start = Choice(middle, strength)
        found, figure = yield from climbed(by_rate, start, {})
        by_strength = [Choice(found.rate, one) for one in sorted(self.strengths)]
        if not by_strength:
            return found
        found, _ = yield from climbed(by_strength, found, {found: figure})
        return found


def climbed(
    choices: Sequence[Choice], start: Choice, known: dict[Choice, float]
) -> Generator[Choice, float, tuple[Choice, float]]:
    """Asks for figures from a start on, in steps up or down while they rise.

    Args:
        choices: in order.
        start: one of them.
        known: figures that need not be asked for.

    Returns:
        The best that was asked for, the start where none is better, and its figure.
    """
    place = choices.index(start)
    if start not in known:
        known[start] = yield start
    best = start
    for way in (choices[place + 1 :], choices[:place][::-1]):
        for choice in way if best == start else ():
            known[choice] = yield choice
            if known[choice] <= known[best]:
                break
            best = choice
    return best, known[best]


def labelled_methods() -> dict[str, Recipe]:
    """The methods that learn from labels.

    Others are divided and scored in another way, so that no table has both.
    """
    return {
        name: recipe
        for name, recipe in METHODS.items()
        if not recipe.settings.get("data", {}).get("ignore_labels", False)
    }


def trained_contenders(rates: tuple[float, ...]) -> dict[str, Contender]:
    """Every method that learns from labels; those for any quantizer also with each."""
    methods = labelled_methods()
    found = {name: _of_recipe(name, methods[name], rates) for name in methods}
    for name, recipe in methods.items():
        # A recipe without a layer of its own has one for whatever quantizer.
        others = [kind for kind in QUANTIZERS if kind != recipe.coder]
        for kind in others if recipe.layer is None else ():
            own = _of_recipe(name, recipe, rates)
            settings = (*own.settings, f"coder.kind={kind}")
            row = f"{name}+{kind}"
            found[row] = Contender(row, settings, own.key, own.strengths, rates)
    return found


FIXED = "fixed"
"""The row ``fixed+itq`` is the coder itq on vectors that nothing here has trained."""


def fixed_rows() -> list[str]:
    """A row for every coder that takes vectors of any length."""
    free = [kind for kind in CODERS if CODERS[kind].dim_of_bits(8) is None]
    return [f"{FIXED}+{kind}" for kind in free]


def coder_of(row: str) -> str | None:
    """The coder of a row on fixed vectors; None for a trained row.

    >>> coder_of("fixed+itq"), coder_of("snapping+aq")
    ('itq', None)
    """
    method, _, kind = row.partition("+")
    return kind if method == FIXED else None


def _of_recipe(name: str, recipe: Recipe, rates: tuple[float, ...]) -> Contender:
    key, strengths = strengths_of(recipe)
    return Contender(name, (f"method.name={name}",), key, strengths, rates)


def strengths_of(recipe: Recipe) -> tuple[str, tuple[float, ...]]:
    """The setting that is a recipe's strength, and the values to try.

    Those it declares; else those around the default of its regularizer, its layer or
    its loss, the first that has a strength.

    Example:
        >>> key, values = strengths_of(METHODS["dhn"])
        >>> key, [round(one, 3) for one in values]
        ('regularizer.options.strength', [0.2, 0.067, 0.6])
    """
    if recipe.tries is not None:
        return recipe.tries
    parts = {
        "regularizer": _builder(recipe.regularizer, every_regularizer()),
        "layer": LAYERS[recipe.layer_for(CODERS[recipe.coder])],
        "loss": _builder(recipe.loss, every_loss()),
    }
    for section, builder in parts.items():
        own = recipe.settings.get(section, {}).get("options", {})
        given = own.get("strength") if isinstance(own, dict) else None
        default = default_options(builder).get("strength") if given is None else given
        if isinstance(default, float) and math.isfinite(default) and default > 0:
            values = default, round(default / SPREAD, 4), round(default * SPREAD, 4)
            return f"{section}.options.strength", values
    return "", ()


def _builder(
    part: Part, registry: Mapping[str, Callable[..., object]]
) -> Callable[..., object]:
    return registry[part] if isinstance(part, str) else part

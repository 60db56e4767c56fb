"""Layers between embeddings and loss: gradient snapping, its rules, its rivals."""

from collections.abc import Callable

from torch import nn

from gradsnap.coders.coder import Coder
from gradsnap.coders.quantizers import Quantizer
from gradsnap.errors import InputError
from gradsnap.layers.bits import PiecewiseThreshold, StraightThroughSigns, Tanh
from gradsnap.layers.rivals import (
    FixedCodes,
    SoftAssignment,
    StraightThrough,
    StraightThroughCodes,
)
from gradsnap.layers.rules import OutputRegularization, PrintedRule, SnappingRule
from gradsnap.layers.snapping import CodeSnapping, GradientSnapping
from gradsnap.layers.soft_codes import HardCodes, SoftCodes
from gradsnap.registry import build, options_of


def _plain() -> nn.Module:
    """The gradient as it is."""
    return nn.Identity()


def _snapping(
    quantizer: Quantizer, strength: float = 0.3, neighbors: int = 150
) -> nn.Module:
    return GradientSnapping(quantizer, neighbors, SnappingRule(strength))


def _codes(
    quantizer: Quantizer, strength: float = 0.3, neighbors: int = 150
) -> nn.Module:
    return CodeSnapping(quantizer, neighbors, SnappingRule(strength))


def _printed(
    quantizer: Quantizer, strength: float = 0.036, neighbors: int = 150
) -> nn.Module:
    return GradientSnapping(quantizer, neighbors, PrintedRule(strength))


def _output_regularization(quantizer: Quantizer, strength: float = 0.1) -> nn.Module:
    return GradientSnapping(quantizer, 1, OutputRegularization(strength))


LAYERS: dict[str, Callable[..., nn.Module]] = {
    "plain": _plain,
    "snapping": _snapping,
    "codes": _codes,
    "printed": _printed,
    "output-regularization": _output_regularization,
    "straight-through": StraightThrough,
    "straight-through-codes": StraightThroughCodes,
    "soft-assignment": SoftAssignment,
    "soft-codes": SoftCodes,
    "hard-codes": HardCodes,
    "fixed-codes": FixedCodes,
    "tanh": Tanh,
    "sign": StraightThroughSigns,
    "threshold": PiecewiseThreshold,
}
"""Every layer by its short name, with its own options and their defaults."""


LEARNING_LAYERS = ("soft-codes", "hard-codes")
"""Layers through which codewords learn best by the gradient of the loss."""

CODE_LAYERS = (
    "codes",
    "straight-through-codes",
    "soft-codes",
    "hard-codes",
    "fixed-codes",
)
"""Layers that give items as codes, for queries to find."""


def gives_items(layer: nn.Module) -> bool:
    """Whether a layer's output are items for queries to find, as codes say they are.

    The queries are the embeddings themselves then, as in search.
    """
    return bool(getattr(layer, "gives_items", False))


def needs_codewords(layer: nn.Module) -> bool:
    """Whether a layer looks at codewords, so that it has to wait for a fitted coder."""
    return hasattr(layer, "quantizer")


def build_layer(name: str, coder: Coder, **options: object) -> nn.Module:
    """The layer of that name over a coder.

    Args:
        name: a key of ``LAYERS``.
        coder: a quantizer, for the layers that look at codewords.
        options: the layer's own, such as ``strength``.

    Raises:
        InputError: an unknown name or option, or a layer that needs a quantizer.
    """
    wants_quantizer = "quantizer" in options_of(LAYERS.get(name, _plain))
    if wants_quantizer and not isinstance(coder, Quantizer):
        raise InputError(
            f"the layer {name!r} needs a quantizer, whose codewords it can turn to; a "
            f"{type(coder).__name__} has none: choose layer.name=plain"
        )
    if "quantizer" in options:
        raise InputError(
            f"the layer {name!r} has the quantizer of its run, got "
            f"quantizer={options['quantizer']!r}: choose one with coder.kind"
        )
    return build(LAYERS, name, "layer", {"quantizer": coder}, options)


__all__ = [
    "LAYERS",
    "LEARNING_LAYERS",
    "CodeSnapping",
    "FixedCodes",
    "GradientSnapping",
    "HardCodes",
    "OutputRegularization",
    "PiecewiseThreshold",
    "PrintedRule",
    "SnappingRule",
    "SoftAssignment",
    "SoftCodes",
    "StraightThrough",
    "StraightThroughCodes",
    "StraightThroughSigns",
    "Tanh",
    "build_layer",
    "gives_items",
    "needs_codewords",
]

"""Methods: named choices of loss, regularizer, layer and coder."""

from collections.abc import Callable

from torch import nn

from gradsnap.losses import LOSSES
from gradsnap.methods.cnnh import CNNH, CNNH_STAR
from gradsnap.methods.csq import CSQ
from gradsnap.methods.dhn import DHN
from gradsnap.methods.dpq import DPQ
from gradsnap.methods.dpsh import DPSH
from gradsnap.methods.dqn import DQN
from gradsnap.methods.drsch import DRSCH, DSCH
from gradsnap.methods.dsrh import DSRH
from gradsnap.methods.dtq import DTQ
from gradsnap.methods.greedyhash import GREEDYHASH
from gradsnap.methods.hashnet import HASHNET
from gradsnap.methods.jpq import JPQ
from gradsnap.methods.method import Method, Recipe
from gradsnap.methods.ninh import NINH
from gradsnap.methods.orthohash import ORTHOHASH
from gradsnap.methods.pqn import PQN
from gradsnap.methods.regularizers import (
    REGULARIZERS,
    CornerPenalty,
    QuantizationPenalty,
)

METHODS: dict[str, Recipe] = {
    "snapping": Recipe(
        summary="the paper's: triplet loss, gradients snapped, product codes",
        layer=None,
        for_quantizers="snapping",
    ),
    "codes": Recipe(
        summary="through the codes: queries as floats, items as soft product codes",
        loss="supcon",
        layer=None,
        for_quantizers="codes",
        for_products="soft-codes",
        where_scarce="opq",
        settings={"loss": {"mixture": 1.0}},
        tries=("loss.mixture", (1.0, 0.3, 0.0)),
    ),
    "snapped-codes": Recipe(
        summary="the same, items as their codes, with snapped gradients",
        loss="supcon",
        layer=None,
        for_quantizers="codes",
        settings={"loss": {"mixture": 1.0}},
    ),
    "neighbors": Recipe(
        summary="no labels: codebooks learn to keep the nearest neighbours",
        loss="neighbors",
        layer="straight-through-codes",
        coder="aq",
        settings={
            "data": {"ignore_labels": True},
            "network": {"dim": 128, "start": "kept-axes"},
            "layer": {"warmup": 0.0},
            "coder": {"learn": "gradient"},
            "optimizer": {"rate": 8e-3},
            "run": {"steps": 400, "batch_size": 1024, "validate_every": 100},
        },
    ),
    "plain": Recipe(summary="triplet loss, codes fitted afterwards"),
    "dhn": DHN,
    "dqn": DQN,
    "pqn": PQN,
    "dpq": DPQ,
    "dtq": DTQ,
    "jpq": JPQ,
    "cnnh": CNNH,
    "cnnh-star": CNNH_STAR,
    "ninh": NINH,
    "dsch": DSCH,
    "drsch": DRSCH,
    "dsrh": DSRH,
    "dpsh": DPSH,
    "hashnet": HASHNET,
    "greedyhash": GREEDYHASH,
    "csq": CSQ,
    "orthohash": ORTHOHASH,
}
"""Every method by its short name; being in here is being tested."""


def every_loss() -> dict[str, Callable[..., nn.Module]]:
    """The losses of the library, and those that methods bring along, by name."""
    own = {name: recipe.loss for name, recipe in METHODS.items()}
    return LOSSES | {name: part for name, part in own.items() if callable(part)}


def every_regularizer() -> dict[str, Callable[..., nn.Module]]:
    """The same of regularizers."""
    own = {name: recipe.regularizer for name, recipe in METHODS.items()}
    return REGULARIZERS | {name: part for name, part in own.items() if callable(part)}


__all__ = [
    "METHODS",
    "REGULARIZERS",
    "CornerPenalty",
    "Method",
    "QuantizationPenalty",
    "Recipe",
    "every_loss",
    "every_regularizer",
]

"""Settings by the names they had before: ``quantizer`` and ``snapping``.

Folders of earlier models still open, and commands people remember still work.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradsnap.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from gradsnap.training.config import TrainingConfig

Table = dict[str, Any]

FORMER = frozenset({"quantizer", "snapping"})
"""Sections that have other names now."""

LAYER_NAMES = {
    "layer": ("name",),
    "strength": ("options", "strength"),
    "neighbors": ("options", "neighbors"),
    "warmup": ("warmup",),
    "ramp": ("ramp",),
    "first_strength": ("first", "strength"),
    "first_neighbors": ("first", "neighbors"),
}
"""Where the keys of the former section ``snapping`` are now, within ``layer``."""


def renamed_settings(tables: Table) -> Table:
    """The tables with former sections and keys under the names they have now."""
    tables = dict(tables)
    former = tables.pop("quantizer", None)
    if isinstance(former, dict):
        coder = tables.setdefault("coder", {})
        for key, value in former.items():
            path = ("options", "decay") if key == "decay" else (key,)
            _put(coder, path, value)
    snapping = tables.pop("snapping", None)
    if isinstance(snapping, dict):
        layer = tables.setdefault("layer", {})
        for key, value in snapping.items():
            if key not in LAYER_NAMES:
                raise InputError(
                    f"unknown setting of snapping {key!r}; the section is now called "
                    "layer: layer.name, layer.options.strength, layer.warmup"
                )
            _put(layer, LAYER_NAMES[key], value)
    return tables


def former_model_tables(tables: Table) -> Table:
    """A model folder's tables, without what a former model recorded and never used.

    Strength and neighbors were recorded for every layer, whether it had them or not.
    """
    tables = {name: dict(values) for name, values in tables.items()}
    snapping = tables.get("snapping", {})
    if snapping.get("layer", "snapping") != "snapping":
        for key in ("strength", "neighbors"):
            snapping.pop(key, None)
    if not snapping.get("ramp"):
        for key in ("first_strength", "first_neighbors"):
            snapping.pop(key, None)
    if tables.get("network", {}).get("engine") == "torch":
        tables["network"].pop("engine")  # it was the default, and auto is now
    return renamed_settings(tables)


def read_config(folder: Path) -> "TrainingConfig":
    """The configuration in a model folder, of this or of an earlier gradsnap."""
    from gradsnap.training.settings import make_config, read_toml

    return make_config(former_model_tables(read_toml(folder / "config.toml")))


def former_words(config: Path, tensors: dict[str, Tensor]) -> dict[str, str]:
    """What an earlier model folder's ``config.toml`` says of network and coder.

    Args:
        config: the file.
        tensors: of the folder's weights.
    """
    from gradsnap.training.learner import new_coder

    try:
        made = read_config(config.parent)
        dim = len(tensors["network.feat.weight"])
    except (AttributeError, KeyError) as error:
        raise FileFormatError(f"{config} does not fit its weights: {error}") from error
    spec = {
        "name": made.network.name,
        "options": made.network.options | {"dim": dim},
        "side": made.data.side,
        "channels": made.data.channels,
    }
    coder = new_coder(made.coder, dim, made.run.seed)
    words = {"kind": made.coder.kind, "config": json.dumps(coder.config())}
    return words | {"network": json.dumps(spec)}


def _put(table: Table, path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        table = table.setdefault(part, {})
    table[path[-1]] = value

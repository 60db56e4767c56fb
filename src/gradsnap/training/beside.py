"""A run with others beside it: what its way of training for the codes was worth.

Where codes are plenty a plain network's codes can be as good. Where they are scarce,
items as their codes with snapped gradients can be better than a soft choice. So each is
trained on the same split, the validation part chooses, and the card has all figures.
"""

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from gradsnap.errors import InputError
from gradsnap.files import write_text
from gradsnap.inference.model import CARD, CONFIG, WEIGHTS, Model, load
from gradsnap.layers import build_layer
from gradsnap.methods import METHODS
from gradsnap.methods.method import is_scarce
from gradsnap.training.config import TrainingConfig
from gradsnap.training.defaults import Settled, settled, with_parts
from gradsnap.training.learner import new_coder, trunk_is_kept
from gradsnap.training.processes import joined_processes
from gradsnap.training.run import check_free, device_of, train_settled
from gradsnap.training.settings import changed

logger = logging.getLogger(__name__)

QUICK = ("head", "mlp", "small")
"""Networks that train in a minute or so, and twice in two."""

OURS = ("codes", "snapped-codes", "snapping")
"""Methods that a plain network may stand in for; who names a rival wants the rival."""

WORTH = 1e-3
"""What another run must gain on the validation part to be kept."""

SNAPPED: dict[str, dict[str, Any]] = {
    "layer": {"name": "codes", "options": {"strength": 0.1}, "first": {}},
    "loss": {"mixture": 0.0},
    "coder": {"learn": "stream"},
}
"""Snapping through the codes, as it does best where codes are scarce (docs/study.md):
a strong contraction, and no loss of floats beside it."""


def run_beside_plain(
    config: TrainingConfig,
    out: Path,
    *,
    tensorboard: bool = False,
    network_from: str | None = None,
) -> Model | None:
    """Trains as ``run_training`` does, and a plain network with the same settings.

    Where codes are scarce and nobody named a layer, a third one is trained with snapped
    codes. The model in ``out`` is the one whose codes rank best on the validation part,
    and ``card["beside"]`` says how all rank on the queries. Where training more than
    once would take long, or there is nothing to compare, it is ``run_training``.

    Returns:
        The model, on the first of several processes; None on the others.
    """
    check_free(out)
    run: dict[str, Any] = {"tensorboard": tensorboard, "network_from": network_from}
    with joined_processes(device_of(config)) as processes:
        ready = settled(config, network_from, processes)
        if not is_quick(ready, network_from):
            return train_settled(ready, out, **run)
    _check_layer(ready.config)  # before the others take their minutes
    others = {
        name: _other_model(name, ready._replace(config=one), out / name)
        for name, one in others_of(config, ready).items()
    }
    model = train_settled(ready, out, **run)
    if model is None:
        return None
    chosen = _chosen({"trained": model} | others, out)
    for name in others:
        shutil.rmtree(out / name)
    return chosen


def others_of(given: TrainingConfig, ready: Settled) -> dict[str, TrainingConfig]:
    """The configurations that are tried beside a run, by name, the simplest first.

    Args:
        given: what the user wrote; a layer that was named is what the user wants.
        ready: the run.
    """
    config = ready.config
    layer = {"name": "plain", "options": {}, "first": {}}
    coder = {"learn": "stream"}  # without a layer no loss may depend on codewords
    others = {"plain": changed(config, layer=layer, coder=coder)}
    open_ = given.layer.name is None and config.layer.name == "soft-codes"
    bits, size = config.coder.bits, config.coder.codebook_size
    if open_ and size and is_scarce(bits, size, ready.supervision.num_classes):
        recipe = METHODS[config.method.name]
        named = "kind" in given.coder.model_fields_set
        kind = {} if named else {"kind": recipe.coder}
        others["snapped"] = changed(changed(config, **SNAPPED), coder=kind)
    return {name: with_parts(one) for name, one in others.items()}


def is_quick(ready: Settled, network_from: str | None) -> bool:
    """Whether a plain network beside it is worth its time: a head, or a small one."""
    config = ready.config
    network = config.network
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    learned = network.start != "kept-axes" and len(ready.split.validation) > 0
    compared = config.method.name in OURS and config.layer.name != "plain" and learned
    small = network_from is None and (trunk_is_kept(config) or network.name in QUICK)
    return alone and compared and small


def _check_layer(config: TrainingConfig) -> None:
    """Refuses a layer with options it does not have, or over another coder."""
    dim = config.network.dim or config.coder.bits  # any length will do for that
    coder = new_coder(config.coder, dim, config.run.seed)
    build_layer(config.layer.name or "plain", coder, **config.layer.options)


def _other_model(name: str, ready: Settled, folder: Path) -> Model:
    """The model of another run, trained or, if that was done before, opened."""
    if (folder / WEIGHTS).exists():
        return load(folder)
    cache = ready.config.data.cache or str(folder.parent / "cache")
    logger.info("training a %s network first, for comparison", name)
    config = changed(ready.config, data={"cache": cache})
    model = train_settled(ready._replace(config=config), folder)
    if model is None:
        raise InputError("several processes train one network: give --no-beside-plain")
    return model


def _chosen(models: dict[str, Model], out: Path) -> Model:
    """Writes the best of them into the folder, with the figures of all.

    The first is there already, and another is kept only if that is worth something.
    """
    judged = {name: _judged(model.card) for name, model in models.items()}
    kept = "trained"
    for name, figure in judged.items():
        if figure > judged[kept] + WORTH:
            kept = name
    model = models[kept]
    figures = {name: one.card["figures"] for name, one in models.items()}
    model.card["beside"] = {"kept": kept, "figures": figures, "validation": judged}
    if kept == "trained":
        write_text(out / CARD, json.dumps(model.card, indent=2) + "\n")
        return model
    (out / WEIGHTS).unlink()  # a folder without weights is not complete
    model.save(out, (out / kept / CONFIG).read_text(encoding="utf-8"))
    return load(out)


def _judged(card: dict[str, Any]) -> float:
    """How the finished codes rank on the validation part."""
    name = f"validation_code_{card['figure']}"
    return float(card.get(f"{name}_finished") or card.get(name) or 0.0)

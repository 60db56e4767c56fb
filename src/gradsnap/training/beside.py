"""A run with others beside it: what its way of training for the codes was worth.

Where codes are plenty a plain network's codes can be as good. Where they are scarce,
items as their codes with snapped gradients can be better than a soft choice. So each is
trained on the same split, the validation part chooses, and the card has all figures.
Where most of the database trains, what is kept is trained once more, on the validation
part too: nothing is left to choose by it, and it is searched like the rest. Codes of
items that trained rank far better than codes of others, most of all by codewords that
learned (docs/study.md).
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
from gradsnap.training.by_labels import ByLabels
from gradsnap.training.config import TrainingConfig
from gradsnap.training.defaults import Settled, settled, with_parts
from gradsnap.training.learner import new_coder, trunk_is_kept
from gradsnap.training.processes import joined_processes
from gradsnap.training.run import check_free, device_of, train_settled
from gradsnap.training.settings import (
    changed,
    differing,
    make_config,
    read_toml,
    to_toml,
)

logger = logging.getLogger(__name__)

QUICK = ("head", "mlp", "small")
"""Networks that train in a minute or so, and twice in two."""

OURS = ("codes", "snapped-codes", "snapping")
"""Methods that a plain network may stand in for; who names a rival wants the rival."""

AGAIN = "once-more"
TOLD = {
    "plain": "a plain network, to compare with",
    "snapped": "a network with snapped codes, to compare with",
    "trained": "the network",
    AGAIN: "what is kept once more, on the validation part too",
}
"""What is trained, by the folder it lies in."""

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
    codes. The one whose codes rank best on the validation part is kept, and where that
    part is searched, trained once more with it. ``card["beside"]`` says how all of them
    ranked on the queries before. Where training more than once would take long, or
    there is nothing to compare, it is ``run_training``.

    Returns:
        The model, on the first of several processes; None on the others.
    """
    check_free(out)
    run: dict[str, Any] = {"tensorboard": tensorboard, "network_from": network_from}
    with joined_processes(device_of(config)) as processes:
        ready = settled(config, network_from, processes)
        others = others_of(config, ready)
        if not (is_quick(ready, network_from) and (others or trains_again(ready))):
            return train_settled(ready, out, **run)
    _check_layer(ready.config)  # before the others take their minutes
    tried = others | {"trained": ready.config}
    models = {
        name: _tried(name, ready._replace(config=one), out / name, run)
        for name, one in tried.items()
    }
    about = _compared(models)
    kept = about["kept"]
    one, model = ready._replace(config=tried[kept]), models[kept]
    if trains_again(one):
        kept, one, model = AGAIN, *_again(one, model.card, out / AGAIN, run)
    model.card["beside"] = about
    write_text(out / kept / CARD, json.dumps(model.card, indent=2) + "\n")
    _place(out / kept, one.config, out)
    for name in (*tried, AGAIN):
        shutil.rmtree(out / name, ignore_errors=True)
    return load(out)


def others_of(given: TrainingConfig, ready: Settled) -> dict[str, TrainingConfig]:
    """The configurations that are tried beside a run, by name, the simplest first.

    None beside a rival, or a network that is plain itself.

    Args:
        given: what the user wrote; a layer that was named is what the user wants.
        ready: the run.
    """
    config = ready.config
    if config.method.name not in OURS or config.layer.name == "plain":
        return {}
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
    """Whether training more than once is worth its time: a head, or a small network."""
    config = ready.config
    network = config.network
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    learned = network.start != "kept-axes" and len(ready.split.validation) > 0
    small = network_from is None and (trunk_is_kept(config) or network.name in QUICK)
    return alone and learned and small


def trains_again(ready: Settled) -> bool:
    """Whether what is kept is trained on the validation part too, which is searched.

    Whatever the method: networks are compared that saw the same items.
    """
    labelled = isinstance(ready.supervision, ByLabels)
    return labelled and ready.split.validates_on_training


def _check_layer(config: TrainingConfig) -> None:
    """Refuses a layer with options it does not have, or over another coder."""
    dim = config.network.dim or config.coder.bits  # any length will do for that
    coder = new_coder(config.coder, dim, config.run.seed)
    build_layer(config.layer.name or "plain", coder, **config.layer.options)


def once_more(config: TrainingConfig, step: int, fitted_to: str) -> TrainingConfig:
    """The same run on the validation part too, with what was chosen by it before.

    Args:
        config: of the first run.
        step: the best of that run; there are no more.
        fitted_to: what its coder was fitted to, or "none".
    """
    return changed(
        config,
        data={"validation": 0.0},
        run={"steps": step},
        coder={"refit": fitted_to},
    )


def _tried(name: str, ready: Settled, folder: Path, run: dict[str, Any]) -> Model:
    """The model of a run, trained or, if that was done before, opened."""
    cache = ready.config.data.cache or str(folder.parent / "cache")
    config = changed(ready.config, data={"cache": cache})
    if (folder / WEIGHTS).exists():
        _check_same(config, folder)
        return load(folder)
    logger.info("training %s", TOLD[name])
    model = train_settled(ready._replace(config=config), folder, **run)
    if model is None:
        raise InputError("several processes train one network: give --no-beside-plain")
    return model


def _check_same(config: TrainingConfig, folder: Path) -> None:
    """Refuses what another command left in a folder where it was stopped."""
    others = differing(make_config(read_toml(folder / CONFIG)), config)
    if others:
        raise InputError(
            f"{folder} is of another configuration ({'; '.join(others[:5])}): use "
            "those settings, or another folder"
        )


def _again(
    ready: Settled, first: dict[str, Any], folder: Path, run: dict[str, Any]
) -> tuple[Settled, Model]:
    """What is kept, trained once more.

    Args:
        ready: the run that is kept.
        first: its card; what validation said stands in the new one, too.
        folder: to train in.
        run: further arguments of ``train_settled``.
    """
    config = once_more(ready.config, first["step"], first["coder_fitted_to"])
    again = ready._replace(config=config, split=ready.supervision.split(config.data))
    model = _tried(AGAIN, again, folder, run)
    validated = {name: first[name] for name in first if name.startswith("validation_")}
    model.card.update(validated, facts=first["facts"] | model.card["facts"])
    return again, model


def _place(folder: Path, config: TrainingConfig, out: Path) -> None:
    """Puts a run into the model folder, its weights last.

    Without them no folder is complete, so a command that is killed here goes on.
    """
    weights = shutil.ignore_patterns(WEIGHTS)
    shutil.copytree(folder, out, ignore=weights, dirs_exist_ok=True)
    write_text(out / CONFIG, to_toml(config))
    shutil.move(folder / WEIGHTS, out / WEIGHTS)


def _compared(models: dict[str, Model]) -> dict[str, Any]:
    """Which model is kept, and the figures of all.

    The one that was asked for, unless another is better by ``WORTH``.
    """
    judged = {name: _judged(models[name].card) for name in ("trained", *models)}
    kept = "trained"
    for name, figure in judged.items():
        if figure > judged[kept] + WORTH:
            kept = name
    figures = {name: models[name].card["figures"] for name in judged}
    return {"kept": kept, "figures": figures, "validation": judged}


def _judged(card: dict[str, Any]) -> float:
    """How the finished codes rank on the validation part."""
    name = f"validation_code_{card['figure']}"
    return float(card.get(f"{name}_finished") or card.get(name) or 0.0)

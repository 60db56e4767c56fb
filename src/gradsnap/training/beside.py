"""A run with a plain network beside it: what training for the codes was worth.

Where codes are plenty a plain network's codes can be as good. So both are trained on
the same split, the validation part chooses, and the card has the figures of both.
"""

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from gradsnap.files import write_text
from gradsnap.inference.model import CARD, CONFIG, WEIGHTS, Model, load
from gradsnap.layers import build_layer
from gradsnap.training.config import TrainingConfig
from gradsnap.training.defaults import Settled, settled, with_parts
from gradsnap.training.learner import new_coder, trunk_is_kept
from gradsnap.training.run import check_free, train_settled
from gradsnap.training.settings import changed

logger = logging.getLogger(__name__)

QUICK = ("head", "mlp", "small")
"""Networks that train in a minute or so, and twice in two."""

OURS = ("codes", "snapped-codes", "snapping")
"""Methods that a plain network may stand in for; who names a rival wants the rival."""

WORTH = 1e-3
"""What a plain network must gain on the validation part to be kept."""


def run_beside_plain(
    config: TrainingConfig,
    out: Path,
    *,
    tensorboard: bool = False,
    network_from: str | None = None,
) -> Model | None:
    """Trains as ``run_training`` does, and a plain network with the same settings.

    The model in ``out`` is the one whose codes rank better on the validation part, and
    ``card["beside"]`` says how both rank on the queries. Where training twice would
    take long, or there is nothing to compare, it is ``run_training``.

    Returns:
        The model, on the first of several processes; None on the others.
    """
    check_free(out)
    ready = settled(config, network_from)
    run: dict[str, Any] = {"tensorboard": tensorboard, "network_from": network_from}
    if not is_quick(ready, network_from):
        return train_settled(ready, out, **run)
    _check_layer(ready.config)  # before the plain network takes its minutes
    plain = _plain_model(ready, out / "plain")
    model = train_settled(ready, out, **run)
    if model is None or plain is None:
        return model
    chosen = _chosen(model, plain, out)
    shutil.rmtree(out / "plain")
    return chosen


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


def _plain_model(ready: Settled, folder: Path) -> Model | None:
    """The plain network, trained or, if that was done before, opened."""
    if (folder / WEIGHTS).exists():
        return load(folder)
    cache = ready.config.data.cache or str(folder.parent / "cache")
    layer = {"name": "plain", "options": {}, "first": {}}
    coder = {"learn": "stream"}  # without a layer no loss may depend on codewords
    without = changed(ready.config, layer=layer, coder=coder, data={"cache": cache})
    logger.info("training a plain network first, for comparison")
    return train_settled(ready._replace(config=with_parts(without)), folder)


def _chosen(model: Model, plain: Model, out: Path) -> Model:
    """Writes the better of both into the folder, with the figures of both."""
    figures = {"plain": plain.card["figures"], "trained": model.card["figures"]}
    judged = {"plain": _judged(plain.card), "trained": _judged(model.card)}
    kept = "plain" if judged["plain"] > judged["trained"] + WORTH else "trained"
    beside = {"kept": kept, "figures": figures, "validation": judged}
    if kept == "trained":
        model.card["beside"] = beside
        write_text(out / CARD, json.dumps(model.card, indent=2) + "\n")
        return model
    plain.card["beside"] = beside
    (out / WEIGHTS).unlink()  # a folder without weights is not complete
    plain.save(out, (out / "plain" / CONFIG).read_text(encoding="utf-8"))
    return load(out)


def _judged(card: dict[str, Any]) -> float:
    """How the finished codes rank on the validation part."""
    name = f"validation_code_{card['figure']}"
    return float(card.get(f"{name}_finished") or card.get(name) or 0.0)

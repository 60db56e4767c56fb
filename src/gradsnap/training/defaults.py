"""What a configuration leaves open, settled by the data."""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gradsnap.coders import CODERS
from gradsnap.data import Dataset, Split
from gradsnap.errors import InputError
from gradsnap.layers import CODE_LAYERS, LAYERS, LEARNING_LAYERS
from gradsnap.methods import METHODS, every_loss, every_regularizer
from gradsnap.registry import default_options, options_of
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.layout import with_layout
from gradsnap.training.learner import (
    FIRST_RATE,
    check_coder_options,
    trunk_is_kept,
)
from gradsnap.training.network_choice import with_network
from gradsnap.training.opening import open_items
from gradsnap.training.processes import Processes
from gradsnap.training.settings import changed, make_config
from gradsnap.training.supervision import Supervision, supervision_of

logger = logging.getLogger(__name__)

BATCH_SIZE = 128
ITEMS_A_CLASS = 8
"""Of each class a batch should hold so many, where a step costs little."""
LARGEST_BATCH = 1024
READY_RATE = 1e-2
"""Learning rate of a layer on ready vectors."""
LATE = 0.75
"""Share of the steps after which a whole network learns through codes."""


class Settled(NamedTuple):
    """A run about to begin."""

    config: TrainingConfig
    """Filled in."""
    dataset: Dataset
    """Opened once."""
    split: Split
    supervision: Supervision


def settled(
    config: TrainingConfig,
    network_from: str | None = None,
    processes: Processes | None = None,
) -> Settled:
    """The configuration filled in, its data, their split, and what is known of them.

    Args:
        config: as it was given.
        network_from: the import path of what builds the network.
        processes: that share what is in shards; all of them call.
    """
    dataset = open_items(config.data, processes)
    named = "kind" in config.coder.model_fields_set
    given, config = config, _with_method(config, dataset)
    paced = _names_warmup(config)
    if config.data.ignore_labels and not given.data.ignore_labels:
        # with what lay beside its one folder
        dataset = open_items(config.data, processes)
    config = with_parts(config)
    config = with_network(config, dataset, network_from)
    data = config.data
    if dataset.holds_images:
        dataset = dataset.reading(side=data.side, channels=data.channels)
    supervision = supervision_of(dataset, data, processes)
    _check_classes(config, supervision)
    config = changed(config, data={"protocol": supervision.protocol})
    split = supervision.split(config.data)
    config = _with_pace(config, supervision, split)
    config = config if paced else _with_late_codes(config)
    config = _with_codebooks_alone(with_layout(config, len(split.train)))
    if not named:
        config = with_coder(config, supervision.num_classes)
    return Settled(config, dataset, split, supervision)


def with_coder(config: TrainingConfig, classes: int) -> TrainingConfig:
    """The coder that the method has for the layout, where the user named none."""
    recipe, coder = METHODS[config.method.name], config.coder
    if coder.kind != recipe.coder or coder.codebook_size is None:
        return config
    kind = recipe.coder_for(coder.bits, coder.codebook_size, classes)
    return config if kind == coder.kind else changed(config, coder={"kind": kind})


def _with_pace(
    config: TrainingConfig, supervision: Supervision, split: Split
) -> TrainingConfig:
    """Batch size and rate, where they are open.

    With many classes a small batch holds hardly a pair of any. Where images go through
    a network that trains, each item costs too much for a large one. Where classes are
    to be found that training has not, a high rate loses what a trunk knows of them.
    """
    classes, items = supervision.num_classes, len(split.train)
    ready = _is_ready(config)
    wanted = min(max(BATCH_SIZE, ITEMS_A_CLASS * classes), LARGEST_BATCH)
    size = config.run.batch_size or min(wanted if ready else BATCH_SIZE, items)
    given = config.optimizer.rate
    fast = ready and not supervision.is_new_in_validation(split)
    rate = given if given is not None else READY_RATE if fast else FIRST_RATE
    return changed(config, run={"batch_size": size}, optimizer={"rate": rate})


def _is_ready(config: TrainingConfig) -> bool:
    """Whether one layer learns, on vectors that stay as they are."""
    return config.network.name == "head" or trunk_is_kept(config)


def _names_warmup(config: TrainingConfig) -> bool:
    """Whether the user or the method says when codes begin."""
    own = METHODS[config.method.name].settings.get("layer", {})
    return "warmup" in config.layer.model_fields_set or "warmup" in own


def _with_late_codes(config: TrainingConfig) -> TrainingConfig:
    """Codes late in the run, where a whole network learns and the warm-up is open.

    A network that has to rank by few codes from early on learns worse features, and
    its codes lose more by them than they gain (docs/study.md, "End to end").
    """
    if _is_ready(config) or config.layer.name not in CODE_LAYERS:
        return config
    return changed(config, layer={"warmup": LATE})


def _with_codebooks_alone(config: TrainingConfig) -> TrainingConfig:
    """No warm-up where the network stays: until the coder is fitted, nothing learns.

    Raises:
        InputError: then nothing ever learns.
    """
    if config.network.start != "kept-axes":
        return config
    if config.coder.learn not in ("gradient", "both"):
        raise InputError(
            "network.start=kept-axes leaves codebooks alone to learn, and they do not "
            f"with coder.learn={config.coder.learn}: choose coder.learn=gradient, or "
            "network.start=axes"
        )
    return changed(config, layer={"warmup": 0.0})


def _with_method(config: TrainingConfig, dataset: Dataset) -> TrainingConfig:
    """The method for neighbours, where no method is named and nothing else is known.

    One class tells nothing apart.
    """
    data = config.data
    labels = dataset.labels
    told = labels is not None and (labels.ndim > 1 or len(dataset.classes) > 1)
    told |= data.pairs is not None
    told |= data.triplets is not None
    if told or "name" in config.method.model_fields_set:
        return config
    logger.info("%s has no labels: codes learn to keep neighbours", dataset.name)
    given = config.model_dump(mode="json", exclude_unset=True)
    return make_config(given | {"method": {"name": "neighbors"}})


def with_parts(config: TrainingConfig) -> TrainingConfig:
    """Layer, loss and regularizer by name, with every option they will have.

    What is recorded is what was really used, defaults included.
    """
    kind = CODERS[config.coder.kind]
    layer = config.layer.name or METHODS[config.method.name].layer_for(kind)
    parts: dict[str, tuple[Mapping[str, Callable[..., object]], str]] = {
        "layer": (LAYERS, layer),
        "loss": (every_loss(), config.loss.name),
        "regularizer": (every_regularizer(), config.regularizer.name),
    }
    tables = {
        section: {
            "name": name,
            "options": _plain_values(default_options(registry[name]))
            | getattr(config, section).options,
        }
        for section, (registry, name) in parts.items()
    }
    check_coder_options(config.coder)
    dim = kind.dim_of_bits(config.coder.bits, **config.coder.options)
    network = {} if dim is None or config.network.dim is not None else {"dim": dim}
    soft = layer in LEARNING_LAYERS
    learn = config.coder.learn or ("gradient" if soft else "stream")
    return changed(config, **tables, network=network, coder={"learn": learn})


def divided(dataset: Dataset, settings: DataSettings) -> Split:
    """The split of the settings.

    Raises:
        InputError: unknown options, or too few items for the protocol.
    """
    return supervision_of(dataset, settings).split(settings)


def _check_classes(config: TrainingConfig, supervision: Supervision) -> None:
    """Refuses parts that learn from classes where there are none."""
    if supervision.num_classes:
        return
    if CODERS[config.coder.kind].supervised:
        raise InputError(
            f"the coder {config.coder.kind!r} is fitted to labels, and this run has "
            "none: choose one without, such as pq, opq, rvq or itq"
        )
    if "num_classes" in options_of(every_loss()[config.loss.name]):
        raise InputError(
            f"the loss {config.loss.name!r} learns classes, and this run has none: "
            "choose one of pairs, such as supcon, triplet or contrastive"
        )


def _plain_values(options: Mapping[str, object]) -> dict[str, object]:
    """Those that a file can hold."""
    plain = (bool, int, float, str)
    return {name: value for name, value in options.items() if isinstance(value, plain)}

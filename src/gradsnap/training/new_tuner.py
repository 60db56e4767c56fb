"""A search of settings made ready: its data, its trials, and what is left to choose."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from gradsnap.coders import CODERS, Quantizer
from gradsnap.errors import InputError
from gradsnap.layers.soft_codes import PRODUCTS
from gradsnap.training.config import TrainingConfig
from gradsnap.training.defaults import settled
from gradsnap.training.grid import Grid, layouts
from gradsnap.training.learner import trunk_is_kept
from gradsnap.training.opening import open_items
from gradsnap.training.settings import literal, make_config
from gradsnap.training.trials import Trials, data_fingerprint
from gradsnap.training.tuning import Tuner

DEFAULTS = ("loss.name=supcon", "coder.refit=best")
"""What every trial has, unless the settings say otherwise."""

CHOSEN = ("layer.name", "layer.options", "layer.options.strength", "loss.mixture")
"""What is chosen here and nowhere else."""


def new_tuner(
    words: Sequence[str], minutes: float, folder: Path, network_from: str | None = None
) -> Tuner:
    """A search over one data set.

    Args:
        words: settings of all trials as ``section.key=value``, the data's source and
            the bits among them; one that would be chosen is not chosen then.
        minutes: the budget.
        folder: for records, and for the outputs of a frozen trunk.
        network_from: ``package.module:function`` of what builds the network.

    Raises:
        InputError: there are no labels or no validation part, or what is asked for is
            chosen here.
    """
    given = {word.partition("=")[0].strip() for word in words}
    base = [one for one in DEFAULTS if one.partition("=")[0] not in given] + [*words]
    config = make_config({}, [*base, "method.name=codes"])
    _check(config, given)
    _check_told(config)
    full, dataset, split, _ = settled(config, network_from)
    if not len(split.validation):
        raise InputError(
            "tune needs a validation part: set data.validation above 0, such as 0.1"
        )
    if trunk_is_kept(full) and config.data.cache is None:
        base.append(f"data.cache={literal(str(folder / 'cache'))}")
    grid = _grid(config, given, len(split.train))
    data = data_fingerprint(dataset, split)
    trials = Trials(base, folder, data, network_from)
    steps = config.run.steps if "run.steps" in given else None
    return Tuner(trials, grid, 60 * minutes, config.run.seed, steps)


def _check(config: TrainingConfig, given: set[str]) -> None:
    if not issubclass(CODERS[config.coder.kind], Quantizer):
        raise InputError(
            f"tune chooses layers for quantizers, and coder.kind is "
            f"{config.coder.kind!r}: choose pq, opq, rvq, …"
        )
    refused = sorted(given.intersection(CHOSEN))
    if refused:
        raise InputError(f"tune chooses {', '.join(refused)} by itself: leave it out")


def _check_told(config: TrainingConfig) -> None:
    data = config.data
    if data.pairs or data.triplets or open_items(data).labels is not None:
        return
    raise InputError(
        f"{data.source} has no labels to tune by: give a table of pairs "
        "(data.pairs=FILE), or train without tuning: gradsnap train"
    )


def _grid(config: TrainingConfig, given: set[str], rows: int) -> Grid:
    """What is left to choose."""
    grid = Grid(config.coder.bits, layouts(config.coder.bits, rows))
    if not issubclass(CODERS[config.coder.kind], PRODUCTS):
        grid = dataclasses.replace(grid, kinds=["plain", "snapping", "codes"])
    if config.coder.codebook_size is not None:
        grid = dataclasses.replace(grid, sizes=[config.coder.codebook_size])
    if config.network.dim is not None:
        grid = dataclasses.replace(grid, dims=[config.network.dim])
    if "optimizer.rate" in given and config.optimizer.rate is not None:
        grid = dataclasses.replace(grid, rates=[config.optimizer.rate])
    return grid

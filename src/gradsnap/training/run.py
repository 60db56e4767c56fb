"""A whole run: data, learner, loop, checkpoints, and the model folder it leaves."""

from pathlib import Path

import torch
from torch import nn

from gradsnap.data import Dataset, ShardedDataset
from gradsnap.errors import InputError
from gradsnap.files import make_folder, write_text
from gradsnap.inference.model import CONFIG, WEIGHTS, Model
from gradsnap.inference.trunk import trunk_file, with_trunk_outputs, write_trunk_outputs
from gradsnap.networks import Network
from gradsnap.training.batch_norm import with_global_batch_norm
from gradsnap.training.config import TrainingConfig
from gradsnap.training.defaults import Settled, settled
from gradsnap.training.feed import Feed
from gradsnap.training.learner import new_learner, new_network, trunk_is_kept
from gradsnap.training.loop import train
from gradsnap.training.processes import Processes, joined_processes
from gradsnap.training.settings import to_toml
from gradsnap.training.shard_feed import ShardFeed
from gradsnap.training.start import start
from gradsnap.training.watch import TrainingWatch


def run_training(
    config: TrainingConfig,
    out: Path,
    *,
    tensorboard: bool = False,
    network_from: str | None = None,
) -> Model | None:
    """Trains, and writes the model folder ``out``; goes on where a run stopped.

    Args:
        config: of the run; what it leaves open is settled by the data.
        out: the folder. A checkpoint of the same configuration in it is resumed, of
            another one refused, and so is a finished model.
        tensorboard: also write for TensorBoard, into ``out/tensorboard``.
        network_from: ``package.module:function`` of what builds the network.

    Returns:
        The model, on the first of several processes; None on the others.
    """
    check_free(out)
    device = device_of(config)  # before the data, which may take long to open
    with joined_processes(device) as processes:
        return train_settled(
            settled(config, network_from, processes),
            out,
            tensorboard=tensorboard,
            network_from=network_from,
        )


def check_free(out: Path) -> None:
    """Refuses a folder that holds a finished model."""
    if (out / WEIGHTS).exists():
        raise InputError(f"{out} holds a model already: name another folder")


def train_settled(
    ready: Settled,
    out: Path,
    *,
    tensorboard: bool = False,
    network_from: str | None = None,
) -> Model | None:
    """The same with a configuration that is filled in and data that are open."""
    config, dataset, split, supervision = ready
    device = device_of(config)
    with joined_processes(device) as processes, torch.random.fork_rng():
        network = new_network(config.network, config.run.seed, network_from)
        if processes.first:
            make_folder(out / "checkpoints")
            write_text(out / CONFIG, to_toml(config))
        items, prepare = _prepared(config, dataset, network, out, device, processes)
        known = supervision.looking_at(items)
        rest = (split, known, prepare, config, device, processes)
        feed = Feed(items, *rest)
        if isinstance(items, ShardedDataset):
            feed = ShardFeed(items, *rest)
        start(network, feed, config)
        classes, labels = supervision.num_classes, supervision.labels(split.train)
        learner = new_learner(config, classes, network, device, labels)
        watch = TrainingWatch(config, learner, feed, out, processes)
        watch.resume()
        with watch.logging(tensorboard):
            train(learner, feed, config, watch, processes)
        processes.wait()  # the best checkpoint is written
        model = watch.finish() if processes.first or feed.is_shared else None
        processes.wait()  # none leaves before all are done
        return model if processes.first else None


def _prepared(
    config: TrainingConfig,
    dataset: Dataset,
    network: Network,
    out: Path,
    device: torch.device,
    processes: Processes,
) -> tuple[Dataset, nn.Module]:
    """The items, and what makes of them what the part that trains takes."""
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if processes.world > 1:
        with_global_batch_norm(network)
    prepare: nn.Module = network.preprocess
    if trunk_is_kept(config):
        path = trunk_file(dataset, network, Path(config.data.cache or out / "cache"))
        if processes.first or isinstance(dataset, ShardedDataset):
            engine, workers = config.network.engine, config.data.workers
            write_trunk_outputs(dataset, network, path, workers, engine)
        processes.wait()
        dataset, prepare = with_trunk_outputs(dataset, path), nn.Identity()
    return dataset, prepare


def device_of(config: TrainingConfig) -> torch.device:
    """The device of the settings, or CUDA where there is one.

    Raises:
        InputError: it is not there.
    """
    name = config.run.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"run.device cannot be {name!r}: cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"run.device cannot be {name!r}: cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("run.device is cuda, and this machine has none; choose cpu")
    return device

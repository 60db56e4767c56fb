"""The one loop: batch → embed → snap → loss → backward → step → update."""

import dataclasses
import typing

import torch
from torch import Tensor, nn

from gradsnap.layers.rules import SnappingRule
from gradsnap.layers.snapping import GradientSnapping
from gradsnap.training.config import TrainingConfig
from gradsnap.training.feed import Feed
from gradsnap.training.learner import Learner, trainable
from gradsnap.training.processes import Processes
from gradsnap.training.schedules import RateSchedule, SnappingSchedule


class Watcher(typing.Protocol):
    """Is told of every step; records, validates and keeps checkpoints."""

    def after_step(self, learner: Learner, embeddings: Tensor, loss: Tensor) -> None:
        """Called when ``learner.step`` steps are done."""


def train(
    learner: Learner,
    feed: Feed,
    config: TrainingConfig,
    watcher: Watcher,
    processes: Processes,
) -> None:
    """Trains from the learner's step to the configuration's last."""
    network = _for_processes(learner.trained, config, processes, feed.device)
    quantizer, optimizer, run = learner.quantizer, learner.optimizer, config.run
    rates = RateSchedule(config.optimizer, run.steps)
    snapping = SnappingSchedule(config.snapping, run.steps)
    network.train()
    for batch in feed.batches(learner.step, run.steps):
        torch.manual_seed(_step_seed(run.seed, learner.step, processes.rank))
        if learner.step == snapping.fit_step:
            fit_codebooks(learner, feed, processes)
        _set_rates(learner, rates(learner.step))
        _set_snapping(learner.layer, snapping, learner.step)

        with torch.autocast("cuda", torch.bfloat16, _autocasts(config, feed.device)):
            embeddings = network(batch.inputs).float()
        passed = processes.weighted(embeddings)
        if quantizer.fitted:
            passed = learner.layer(passed)  # identity forward
        every = processes.gathered(passed, len(batch.labels))
        loss = learner.criterion(every, batch)
        optimizer.zero_grad()
        loss.backward()  # gradients arrive snapped
        if config.optimizer.clip is not None:
            nn.utils.clip_grad_norm_(trainable(learner), config.optimizer.clip)
        optimizer.step()
        if quantizer.fitted and learner.step % config.quantizer.update_every == 0:
            quantizer.update(embeddings.detach(), processes.reduce)  # codebooks follow
        learner.step += 1
        watcher.after_step(learner, embeddings.detach(), loss.detach())


def fit_codebooks(learner: Learner, feed: Feed, processes: Processes) -> None:
    """Fits the codebooks to the training part, once for all processes."""
    rows = feed.embed(learner.trained, feed.split.train)
    if processes.first:
        learner.quantizer.fit(rows)
    processes.share_from_first(learner.quantizer)


def _for_processes(
    module: nn.Module,
    config: TrainingConfig,
    processes: Processes,
    device: torch.device,
) -> nn.Module:
    parallel = processes.parallel(module, device)
    return (
        typing.cast(nn.Module, torch.compile(parallel))
        if config.run.compile
        else parallel
    )


def _step_seed(seed: int, step: int, rank: int) -> int:
    """Of dropout: a step's masks do not depend on the steps before it."""
    return ((seed << 40) + (rank << 32) + step) % 2**63


def _autocasts(config: TrainingConfig, device: torch.device) -> bool:
    return config.run.autocast and device.type == "cuda"


def _set_rates(learner: Learner, factor: float) -> None:
    for group in learner.optimizer.param_groups:
        group["lr"] = group["first_lr"] * factor


def _set_snapping(layer: nn.Module, schedule: SnappingSchedule, step: int) -> None:
    if isinstance(layer, GradientSnapping) and isinstance(layer.rule, SnappingRule):
        layer.rule = dataclasses.replace(layer.rule, strength=schedule.strength(step))
        layer.neighbors = schedule.neighbors(step)

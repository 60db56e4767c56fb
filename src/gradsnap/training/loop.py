"""The one loop: batch → embed → snap → loss → backward → step → update.

Rates and the layer's options are functions of the step alone, so that a checkpoint has
nothing to say about them.
"""

import copy
import math
import typing
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gradsnap.errors import InputError
from gradsnap.training.config import LayerSettings, OptimizerSettings, TrainingConfig
from gradsnap.training.feed import Feed
from gradsnap.training.learner import Learner
from gradsnap.training.processes import Processes


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
    method, optimizer, run = learner.method, learner.optimizer, config.run
    rates = RateSchedule(config.optimizer, run.steps)
    options = LayerSchedule(config.layer, run.steps)
    network.train()
    for batch in feed.batches(learner.step, run.steps):
        _seed_dropout(run.seed, learner.step, processes.rank, feed.device)
        if learner.step == options.fit_step and method.coder.follows:
            fit_coder(learner, feed, processes)
        _set_rates(learner, rates(learner.step))
        options.set(method.layer, learner.step)

        with torch.autocast("cuda", torch.bfloat16, _autocasts(config, feed.device)):
            embeddings = network(batch.inputs).float()
        passed = method.through_layer(embeddings)  # as they are, or as codes say
        total, mine = len(batch.target), batch.mine
        plain = processes.gathered(embeddings, total, mine)
        same = passed is embeddings
        every = plain if same else processes.gathered(passed, total, mine)
        loss = method.similarity_loss(plain, every, batch.target, batch.triplets)
        # A regularizer looks at the embeddings themselves, whatever the layer gives.
        loss = loss + method.regularizer(plain, method.coder)
        optimizer.zero_grad()
        loss.backward()  # gradients arrive snapped
        share_codebook_gradients(learner, processes)
        if config.optimizer.clip is not None:
            nn.utils.clip_grad_norm_(learner.trainable(), config.optimizer.clip)
        optimizer.step()
        if method.coder.fitted and learner.step % config.coder.update_every == 0:
            follow(learner, embeddings.detach(), feed, config, processes)
        learner.step += 1
        watcher.after_step(learner, embeddings.detach(), loss.detach())


def follow(
    learner: Learner,
    embeddings: Tensor,
    feed: Feed,
    config: TrainingConfig,
    processes: Processes,
) -> None:
    """Lets the codebooks follow the network, unless the optimizer alone moves them.

    Args:
        learner: whose coder follows.
        embeddings: of the last batch, (n, dim).
        feed: has the training part, for a fit.
        config: says how they follow.
        processes: whose batches count together.
    """
    if config.coder.learn in ("stream", "both"):
        learner.method.coder.update(embeddings, processes.reduce)
    elif config.coder.learn == "fit":
        fit_coder(learner, feed, processes)


def share_codebook_gradients(learner: Learner, processes: Processes) -> None:
    """Averages over processes what the loss says of codebooks that learn from it.

    Raises:
        InputError: they should, and the loss does not depend on them.
    """
    codebooks = learner.codebooks()
    if learner.method.coder.fitted and any(one.grad is None for one in codebooks):
        raise InputError(
            "coder.learn=gradient needs a loss that depends on the codewords: choose "
            "layer.name=codes or straight-through-codes, or "
            "regularizer.name=quantization, or coder.learn=stream"
        )
    processes.average_gradients(codebooks)


def fit_coder(learner: Learner, feed: Feed, processes: Processes) -> None:
    """Fits the coder to the training part, once for all processes."""
    train_part = feed.split.train
    rows = feed.embed(learner.trained, train_part)
    labels = feed.supervision.labels(train_part)
    if processes.first:
        learner.method.coder.fit(rows, labels)
    processes.share_from_first(learner.method.coder)
    if feed.config.network.start == "kept-axes":
        learner.first_fit = copy.deepcopy(learner.method.coder)


@dataclass(frozen=True)
class RateSchedule:
    """What the learning rates are multiplied by.

    Example:
        >>> schedule = RateSchedule(OptimizerSettings(schedule="cosine"), steps=100)
        >>> [round(schedule(step), 3) for step in (0, 50, 100)]
        [1.0, 0.5, 0.0]
    """

    settings: OptimizerSettings
    steps: int

    def __call__(self, step: int) -> float:
        """The factor at a step, 0 to 1."""
        share = step / self.steps
        if self.settings.schedule == "cosine":
            return (1 + math.cos(math.pi * min(share, 1))) / 2
        if self.settings.schedule == "step":
            return 0.1 ** sum(share >= one for one in self.settings.milestones)
        return 1.0


@dataclass(frozen=True)
class LayerSchedule:
    """When the coder is fitted, and how strong the layer is from then on.

    Codewords lie inside the hull of the embeddings, so that snapping from the first
    step contracts them and can stall a margin loss on a fresh head: first a warm-up.

    Example:
        >>> settings = LayerSettings(
        ...     options={"strength": 0.3}, first={"strength": 1.0}, warmup=0.2, ramp=0.4
        ... )
        >>> schedule = LayerSchedule(settings, steps=100)
        >>> values = [schedule.value("strength", step) for step in (20, 40, 60)]
        >>> schedule.fit_step, [round(value, 2) for value in values]
        (20, [1.0, 0.65, 0.3])
    """

    settings: LayerSettings
    steps: int

    @property
    def fit_step(self) -> int:
        """The step before which the coder is fitted."""
        return round(self.settings.warmup * self.steps)

    def value(self, name: str, step: int) -> float:
        """An option at a step, whole where its last value is."""
        first, last = self.settings.first[name], self.settings.options[name]
        length = self.settings.ramp * self.steps
        done = 1.0 if length == 0 else min(1.0, (step - self.fit_step) / length)
        between: float = first + (last - first) * max(0.0, done)
        return round(between) if isinstance(last, int) else between

    def set(self, layer: nn.Module, step: int) -> None:
        """Gives the layer its options at a step, those that ramp."""
        for name in self.settings.first:
            setattr(layer, name, self.value(name, step))


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


def _seed_dropout(seed: int, step: int, rank: int, device: torch.device) -> None:
    """A step's masks do not depend on the steps before it.

    ``torch.manual_seed`` does the same and takes a millisecond for it.
    """
    own = ((seed << 40) + (rank << 32) + step) % 2**63
    torch.default_generator.manual_seed(own)
    if device.type == "cuda":
        torch.cuda.manual_seed(own)


def _autocasts(config: TrainingConfig, device: torch.device) -> bool:
    return config.run.autocast and device.type == "cuda"


def _set_rates(learner: Learner, factor: float) -> None:
    for group in learner.optimizer.param_groups:
        group["lr"] = group["first_lr"] * factor

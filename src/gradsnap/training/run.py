"""A whole run: data, learner, loop, checkpoints, and the model folder it leaves."""

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradsnap.data import Dataset, Split
from gradsnap.errors import InputError
from gradsnap.evaluation import RankingRules
from gradsnap.files import make_folder, write_text
from gradsnap.inference.model import WEIGHTS, Model
from gradsnap.inference.trunk import with_trunk_outputs
from gradsnap.training.batch_norm import with_global_batch_norm
from gradsnap.training.checkpoints import load_checkpoint, save_checkpoint, truncate_log
from gradsnap.training.config import TrainingConfig
from gradsnap.training.defaults import opened
from gradsnap.training.feed import Feed
from gradsnap.training.learner import Learner, new_learner, new_network, trunk_is_kept
from gradsnap.training.loop import train
from gradsnap.training.monitors import (
    Bar,
    JsonLines,
    Log,
    Record,
    TensorBoard,
    check_loss,
    measure,
)
from gradsnap.training.processes import Processes, joined_processes
from gradsnap.training.scoring import Labelled, Scores, protocol_card, rules_of, score
from gradsnap.training.settings import to_toml

logger = logging.getLogger(__name__)


def run_training(
    config: TrainingConfig, out: Path, *, tensorboard: bool = False
) -> Model | None:
    """Trains, and writes the model folder ``out``; goes on where a run stopped.

    Args:
        config: of the run; what it leaves open is settled by the data.
        out: the folder. A checkpoint of the same configuration in it is resumed, of
            another one refused, and so is a finished model.
        tensorboard: also write for TensorBoard, into ``out/tensorboard``.

    Returns:
        The model, on the first of several processes; None on the others.
    """
    if (out / WEIGHTS).exists():
        raise InputError(f"{out} holds a model already: name another folder")
    device = _device(config)
    with joined_processes(device) as processes, torch.random.fork_rng():
        config, dataset, split = opened(config)
        if processes.first:
            make_folder(out / "checkpoints")
            write_text(out / "config.toml", to_toml(config))
        run = _started(config, dataset, split, out, device, processes)
        if processes.first:
            truncate_log(out / "log.jsonl", run.learner.step)
        with run.logging(tensorboard):
            train(run.learner, run.feed, config, run, processes)
        model = run.finished() if processes.first else None
        processes.wait()  # none leaves before all are done
        return model


def _started(
    config: TrainingConfig,
    dataset: Dataset,
    split: Split,
    out: Path,
    device: torch.device,
    processes: Processes,
) -> "Run":
    network = new_network(config.network, config.run.seed)
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if processes.world > 1:
        with_global_batch_norm(network)
    prepare: nn.Module = network.preprocess
    items = dataset
    if trunk_is_kept(config):
        folder = Path(config.data.cache or out / "cache")
        items = with_trunk_outputs(
            dataset,
            network,
            folder,
            processes,
            config.data.workers,
            config.network.engine,
        )
        prepare = nn.Identity()
    feed = Feed(items, split, prepare, config, device, processes)
    learner = new_learner(config, len(dataset.classes), network, device)
    run = Run(config, learner, feed, out, processes)
    if run.last.is_file():
        load_checkpoint(learner, config, run.last)
        logger.info("going on from step %d of %d", learner.step, config.run.steps)
    return run


@dataclass(eq=False)
class Run:
    """Watches the loop: records, validations, checkpoints, and the end."""

    config: TrainingConfig
    learner: Learner
    feed: Feed
    out: Path
    processes: Processes
    log: Log | None = None
    bar: Bar | None = None

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.out / "checkpoints" / "last.safetensors"

    @property
    def best(self) -> Path:
        """The checkpoint whose codes ranked best on the validation part."""
        return self.out / "checkpoints" / "best.safetensors"

    @contextlib.contextmanager
    def logging(self, tensorboard: bool) -> Iterator[None]:
        """Opens the log, on the first process."""
        if not self.processes.first:
            yield
            return
        self.bar = Bar(self.config.run.steps, self.learner.step)
        boards = [TensorBoard(self.out / "tensorboard")] if tensorboard else []
        self.log = Log([self.bar, JsonLines(self.out / "log.jsonl"), *boards])
        try:
            yield
        finally:
            self.log.close()

    def after_step(self, learner: Learner, embeddings: Tensor, loss: Tensor) -> None:
        """Records, validates and keeps, each as often as the settings say."""
        run, step = self.config.run, learner.step
        if self.bar is not None:
            self.bar.advance(step)
        record: Record = {}
        if step % run.monitor_every == 0 or step == run.steps:
            record = measure(learner, embeddings, loss)
            check_loss(record)
        if len(self.feed.split.validation) and self._is_due(run.validate_every):
            record |= {"step": step} | self._validated()
        if self.log is not None and record:
            self.log.write(record)
        if self._is_due(run.checkpoint_every) and self.processes.first:
            save_checkpoint(learner, self.config, self.last)

    def finished(self) -> Model:
        """The best network with codebooks fitted anew, scored once and written."""
        learner = self.learner
        if self.best.is_file():
            load_checkpoint(learner, self.config, self.best)
        scores = self._refitted_scores()
        card = self._card(scores)
        model = Model(learner.network, learner.quantizer, self.config, card)
        model.save(self.out)
        learner.network.requires_grad_(False).eval()
        return model

    def _refitted_scores(self) -> Scores | None:
        """Fits the codebooks anew; scores on the queries, which nothing has seen."""
        split, chosen = self.feed.split, self.config.quantizer.refit
        scored = self.config.run.score_queries
        quantizer = self.learner.quantizer
        if chosen == "train" or not quantizer.fitted:
            quantizer.fit(self.feed.embed(self.learner.trained, split.train))
        if chosen != "database" and not scored:
            return None
        searched = self._labelled(split.database)
        if chosen == "database":
            quantizer.fit(searched.rows)
        if not scored:
            return None
        return score(quantizer, self._labelled(split.queries), searched, self._rules)

    def _is_due(self, every: int) -> bool:
        return (
            self.learner.step % every == 0 or self.learner.step == self.config.run.steps
        )

    def _validated(self) -> Record:
        """MAP on the validation part; the best so far is kept."""
        learner, split = self.learner, self.feed.split
        if not learner.quantizer.fitted:
            return {}
        queries = self._labelled(split.validation)
        searched = self._labelled(split.validation_database)
        scores = score(learner.quantizer, queries, searched, self._rules)
        figures = scores.figures()
        if figures["code_map"] > learner.best:
            learner.best = figures["code_map"]
            if self.processes.first:
                save_checkpoint(learner, self.config, self.best)
        return {name: figures[name] for name in ("float_map", "code_map")}

    @property
    def _rules(self) -> RankingRules:
        return rules_of(self.config.data.protocol)

    def _labelled(self, indices: Tensor) -> Labelled:
        labels = self.feed.labels[indices]
        rows = self.feed.embed(self.learner.trained, indices)
        return Labelled(rows, labels.to(rows.device))

    def _card(self, scores: Scores | None) -> dict[str, Any]:
        split, data = self.feed.split, self.config.data
        name, bits = self.feed.dataset.name, self.learner.quantizer.bits
        protocol = protocol_card(self.config, name, split, self._rules, bits)
        return {
            "data": name,
            "items": len(self.feed.dataset),
            "skipped": len(self.feed.dataset.skipped),
            "classes": list(self.feed.dataset.classes),
            "protocol": {"name": data.protocol, **data.protocol_options},
            "bits": bits,
            "step": self.learner.step,
            "validation_code_map": max(self.learner.best, 0.0) or None,
            "figures": {} if scores is None else scores.figures(),
            "rules": str(self._rules),
            "card": protocol.record(),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }


def _device(config: TrainingConfig) -> torch.device:
    name = config.run.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"run.device cannot be {name!r}: cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("run.device is cuda, and this machine has none; choose cpu")
    return device

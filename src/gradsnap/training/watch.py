"""Watches a training run: records, validations, checkpoints, and its end."""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradsnap.evaluation import RankingRules
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.layers import GradientSnapping
from gradsnap.training.batches import Feed
from gradsnap.training.checkpoints import load_checkpoint, save_checkpoint, truncate_log
from gradsnap.training.config import TrainingConfig
from gradsnap.training.learner import Learner
from gradsnap.training.loop import fit_coder
from gradsnap.training.monitors import (
    Bar,
    JsonLines,
    Log,
    Record,
    TensorBoard,
    check_loss,
    measure,
)
from gradsnap.training.processes import Processes
from gradsnap.training.refits import Refits
from gradsnap.training.scoring import Labelled, Scores, protocol_card, rules_of, score
from gradsnap.training.settings import to_toml

logger = logging.getLogger(__name__)

NEVER_SNAPPED = (
    "nothing was snapped: the loss %s had no gradient left when the warm-up ended, so "
    "that this is a plain network's model; loss.name=supcon never stops pulling, and a "
    "shorter layer.warmup begins earlier"
)


@dataclass(eq=False)
class TrainingWatch:
    """Watches the loop: records, validations, checkpoints, and the end."""

    config: TrainingConfig
    learner: Learner
    feed: Feed
    out: Path
    processes: Processes
    log: Log | None = None
    bar: Bar | None = None
    snapped: bool = False
    """Whether any record since the coder was fitted had a gradient to snap."""

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.out / "checkpoints" / "last.safetensors"

    @property
    def best(self) -> Path:
        """The checkpoint whose codes ranked best on the validation part."""
        return self.out / "checkpoints" / "best.safetensors"

    def resume(self) -> None:
        """Puts the learner where an interrupted run stood."""
        if self.last.is_file():
            load_checkpoint(self.learner, self.config, self.last)
            done, steps = self.learner.step, self.config.run.steps
            logger.info("going on from step %d of %d", done, steps)
        if self.processes.first:
            truncate_log(self.out / "log.jsonl", self.learner.step)

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
            self.snapped |= record.get("active", 0.0) > 0
        if len(self.feed.split.validation) and self._is_due(run.validate_every):
            record |= {"step": step} | self._validate()
        if self.log is not None and record:
            self.log.write(record)
        if self._is_due(run.checkpoint_every) and self.processes.first:
            save_checkpoint(learner, self.config, self.last)

    def finish(self) -> Model:
        """The best network with its coder fitted anew, scored once and written."""
        learner = self.learner
        if self.best.is_file():
            load_checkpoint(learner, self.config, self.best)
        refitted = self._refit()
        card = self._card(self._score()) | refitted | self._snapped()
        data, network = self.config.data, self.config.network
        options = network.options | {"dim": learner.network.dim}
        spec = NetworkSpec(network.name, options, data.side, data.channels)
        coder = learner.method.coder
        model = Model(learner.network, coder, spec, card, self.out)
        model.save(self.out, to_toml(self.config))
        learner.network.requires_grad_(False).eval()
        for codebooks in learner.codebooks():
            codebooks.requires_grad_(False)
        return model

    def _refit(self) -> dict[str, Any]:
        """Fits the coder anew, or keeps it; says to what, and how its codes rank."""
        split, learner = self.feed.split, self.learner
        embed = functools.cache(lambda part: self._labelled(getattr(split, part)))
        refits = Refits(learner.method.coder, embed, self._rules)
        chosen, figure = self.config.coder.refit, None
        if chosen == "best" and not len(split.validation):
            chosen = "database"
        elif chosen == "best":
            chosen, figure = refits.best(unseen=self._validates_unseen_classes())
        learner.method.coder.load_state_dict(refits.coder(chosen).state_dict())
        return {"coder_fitted_to": chosen, "validation_code_map_finished": figure}

    def _validates_unseen_classes(self) -> bool:
        """Whether the validation part has classes that training has not."""
        labels, split = self.feed.labels, self.feed.split
        if labels.ndim > 1 or not len(split.validation):
            return False
        return not bool(torch.isin(labels[split.validation], labels[split.train]).any())

    def _snapped(self) -> dict[str, Any]:
        """Whether a snapping layer ever had a gradient to snap; said aloud if not."""
        if not isinstance(self.learner.method.layer, GradientSnapping):
            return {}
        if not self.snapped:
            logger.warning(NEVER_SNAPPED, self.config.loss.name)
        return {"snapped": self.snapped}

    def _score(self) -> Scores | None:
        """Scores on the queries, which nothing has seen."""
        if not self.config.run.score_queries:
            return None
        parts = (self.feed.split.queries, self.feed.split.database)
        queries, database = (self._labelled(part) for part in parts)
        return score(self.learner.method.coder, queries, database, self._rules)

    def _is_due(self, every: int) -> bool:
        return (
            self.learner.step % every == 0 or self.learner.step == self.config.run.steps
        )

    def _validate(self) -> Record:
        """MAP on the validation part; the best so far is kept.

        A coder that does not follow the network is fitted to it as it is now, so that
        what is judged is what the finished model will be.
        """
        learner, split = self.learner, self.feed.split
        coder = learner.method.coder
        if not coder.follows:
            fit_coder(learner, self.feed, self.processes)
        if not coder.fitted:
            return {}
        queries = self._labelled(split.validation)
        searched = self._labelled(split.validation_database)
        figures = score(coder, queries, searched, self._rules).figures()
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
        split, data, dataset = self.feed.split, self.config.data, self.feed.dataset
        bits = self.learner.method.coder.bits
        protocol = protocol_card(self.config, dataset.name, split, self._rules, bits)
        return {
            "data": dataset.name,
            "items": len(dataset),
            "skipped": len(dataset.skipped),
            "classes": list(dataset.classes),
            "protocol": {"name": data.protocol, **data.protocol_options},
            "method": self.config.method.name,
            "loss": self.config.loss.name,
            "layer": self.config.layer.name,
            "coder": self.config.coder.kind,
            "bits": bits,
            "step": self.learner.step,
            "steps": self.config.run.steps,
            "validation_code_map": max(self.learner.best, 0.0) or None,
            "figures": {} if scores is None else scores.figures(),
            "rules": str(self._rules),
            "card": protocol.record(),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

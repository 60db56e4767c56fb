"""Watches a training run: records, validations, checkpoints, and its end."""

import contextlib
import copy
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gradsnap.coders import Coder
from gradsnap.inference.model import Model, NetworkSpec
from gradsnap.layers import GradientSnapping
from gradsnap.training.checkpoints import load_checkpoint, save_checkpoint, truncate_log
from gradsnap.training.config import TrainingConfig
from gradsnap.training.feed import Feed
from gradsnap.training.layout import layout_of
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
from gradsnap.training.scoring import Embed
from gradsnap.training.settings import to_toml
from gradsnap.training.supervision import Supervision

logger = logging.getLogger(__name__)

NEVER_SNAPPED = (
    "nothing was snapped: the loss %s had no gradient left when the warm-up ended, so "
    "that this is a plain network's model; loss.name=supcon never stops pulling, and a "
    "shorter layer.warmup begins earlier"
)


@dataclass(frozen=True, eq=False)
class EmbeddedOnce:
    """Keeps the embeddings of every list of items it is asked for."""

    embed: Embed
    kept: dict[bytes, Tensor] = field(default_factory=dict)

    def __call__(self, indices: Tensor) -> Tensor:
        """Embeddings (n, dim) of items at indices (n,)."""
        key = indices.numpy().tobytes()
        if key not in self.kept:
            self.kept[key] = self.embed(indices)
        return self.kept[key]


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
        shown = {self._chosen_by: self._supervision.title}
        self.bar = Bar(self.config.run.steps, self.learner.step, shown)
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
        card = self._card(self._test_figures()) | refitted | self._snapped()
        card["facts"] = card.get("facts", {}) | self._compared(card)
        data, network = self.config.data, self.config.network
        options = network.options | {"dim": learner.network.dim, "feat": network.feat}
        spec = NetworkSpec(network.name, options, data.side, data.channels)
        coder = learner.method.coder
        model = Model(learner.network, coder, spec, card, self.out)
        if self.processes.first:
            model.save(self.out, to_toml(self.config))
        learner.network.requires_grad_(False).eval()
        for codebooks in learner.codebooks():
            codebooks.requires_grad_(False)
        return model

    def _refit(self) -> dict[str, Any]:
        """Fits the coder anew, or keeps it; says to what, and how its codes rank."""
        split, learner, supervision = self.feed.split, self.learner, self._supervision
        embed = EmbeddedOnce(self._embed)  # the validation part is ranked thrice

        def fit(coder: Coder, part: str) -> Coder:
            indices = getattr(split, part)
            return coder.fit(embed(indices), supervision.labels(indices))

        def judge(coder: Coder) -> float:
            parts = split.validation, split.validation_database
            return supervision.score(coder, embed, *parts)[self._chosen_by]

        first = {} if learner.first_fit is None else {"train": learner.first_fit}
        refits = Refits(learner.method.coder, fit, judge, first)
        chosen, figures = self.config.coder.refit, dict[str, float]()
        if chosen == "best" and not len(split.validation):
            chosen = "none" if learner.codebooks() else "database"
        elif chosen == "best":
            new = supervision.is_new_in_validation(split)
            chosen, figures = refits.best(unseen=new)
        learner.method.coder.load_state_dict(refits.coder(chosen).state_dict())
        name = f"validation_{self._chosen_by}_finished"
        return {
            "coder_fitted_to": chosen,
            name: figures.get(chosen),
            "validation_by_source": figures,
        }

    def _compared(self, card: dict[str, Any]) -> dict[str, str]:
        """What learning codebooks by gradient was worth, in words."""
        figures = card["validation_by_source"]
        if not figures or not self.learner.codebooks():
            return {}
        is_kept = card["coder_fitted_to"] == "none"
        fitted = max(figures["train"], figures["database"])
        return {
            "codebooks": "learned" if is_kept else "fitted: learning did not help",
            f"{self._supervision.title} of codes, validation": (
                f"{figures['none']:.4f} learned, {fitted:.4f} only fitted"
            ),
        }

    def _snapped(self) -> dict[str, Any]:
        """Whether a snapping layer ever had a gradient to snap; logged if not."""
        if not isinstance(self.learner.method.layer, GradientSnapping):
            return {}
        if not self.snapped:
            logger.warning(NEVER_SNAPPED, self.config.loss.name)
        return {"snapped": self.snapped}

    def _test_figures(self) -> dict[str, float]:
        """Scores on the queries, which nothing has seen."""
        if not self.config.run.score_queries:
            return {}
        split, coder = self.feed.split, self.learner.method.coder
        parts = split.queries, split.database
        return self._supervision.score(coder, self._embed, *parts)

    def _is_due(self, every: int) -> bool:
        return (
            self.learner.step % every == 0 or self.learner.step == self.config.run.steps
        )

    def _validate(self) -> Record:
        """Figures on the validation part; the best so far is kept.

        A coder that does not follow the network is fitted to it as it is now, so that
        what is judged is what the finished model will be. What is learned of classes
        that training has not is lost early, so that these are judged from the start.
        """
        learner, split = self.learner, self.feed.split
        coder = learner.method.coder
        if not coder.follows:
            fit_coder(learner, self.feed, self.processes)
        if not coder.fitted and self._supervision.is_new_in_validation(split):
            rows = self._embed(split.train)
            coder = copy.deepcopy(coder).fit(
                rows, self._supervision.labels(split.train)
            )
        if not coder.fitted:
            return {}
        parts = split.validation, split.validation_database
        figures = self._supervision.score(coder, self._embed, *parts)
        if figures[self._chosen_by] > learner.best:
            learner.best = figures[self._chosen_by]
            if self.processes.first:
                save_checkpoint(learner, self.config, self.best)
        shown = (f"float_{self._supervision.figure}", self._chosen_by)
        return {name: figures[name] for name in shown}

    @property
    def _supervision(self) -> Supervision:
        return self.feed.supervision

    @property
    def _chosen_by(self) -> str:
        """The figure that every choice is made by."""
        return f"code_{self._supervision.figure}"

    def _embed(self, indices: Tensor) -> Tensor:
        return self.feed.embed(self.learner.trained, indices)

    def _card(self, figures: dict[str, float]) -> dict[str, Any]:
        dataset, coder = self.feed.dataset, self.learner.method.coder
        return {
            "data": dataset.name,
            "items": len(dataset),
            "skipped": len(dataset.skipped),
            "method": self.config.method.name,
            "loss": self.config.loss.name,
            "layer": self.config.layer.name,
            "coder": self.config.coder.kind,
            "bits": coder.bits,
            **layout_of(coder),
            "step": self.learner.step,
            "steps": self.config.run.steps,
            "figure": self._supervision.figure,
            "title": self._supervision.title,
            f"validation_{self._chosen_by}": max(self.learner.best, 0.0) or None,
            "figures": figures,
            **self._supervision.card(self.config, self.feed.split, coder.bits),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

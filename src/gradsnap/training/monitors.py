"""What is measured while a run trains, and where it is written."""

import json
import math
import sys
import time
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from gradsnap.coders import Quantizer
from gradsnap.errors import InputError
from gradsnap.layers.snapping import GradientSnapping, Snapped
from gradsnap.progress import is_drawn
from gradsnap.training.learner import Learner

Record = dict[str, Any]

HISTOGRAM_BINS = 20
"""Of the conformity, from −1 to 1: the paper's figure 3a."""


class Sink(typing.Protocol):
    """Where records go."""

    def write(self, record: Record) -> None:
        """Takes one record; it has at least a ``step``."""

    def close(self) -> None:
        """No more records come."""


def measure(learner: Learner, embeddings: Tensor, loss: Tensor) -> Record:
    """What one step tells: of its batch's embeddings (b, dim), and of the codebooks."""
    record: Record = {
        "step": learner.step,
        "loss": float(loss),
        "rate": learner.optimizer.param_groups[0]["lr"],
    }
    if not len(embeddings):  # all rows of the batch came from other processes
        return record
    record["norm"] = float(embeddings.norm(dim=1).mean())
    coder, layer = learner.method.coder, learner.method.layer
    if isinstance(coder, Quantizer) and coder.fitted:
        record["relative_error"] = coder.relative_error(embeddings)
        record |= codeword_use(coder)
    if isinstance(layer, GradientSnapping) and layer.last is not None:
        record |= snapping_record(layer.last)
        record |= {"strength": layer.strength, "neighbors": layer.neighbors}
    return record


def codeword_use(quantizer: Quantizer) -> Record:
    """How evenly codewords are used, mean over codebooks, by their decayed counts.

    Perplexity is the number of codewords that, used evenly, would spread as much; a
    codeword is dead if it is used a hundredth as often as the mean.
    """
    shares = quantizer.counts / quantizer.counts.sum(dim=1, keepdim=True)
    entropy = torch.special.entr(shares).sum(dim=1)
    dead = shares < 0.01 / quantizer.codebook_size
    return {
        "perplexity": float(entropy.exp().mean()),
        "dead": float(dead.double().mean()),
    }


def snapping_record(last: Snapped) -> Record:
    """Of the rows that have a gradient: those whose loss is settled have none."""
    active = last.conformity != 0
    conformity = last.conformity[active].float().clamp(-1, 1)
    histogram = torch.histc(conformity, HISTOGRAM_BINS, min=-1, max=1)
    count = max(len(conformity), 1)
    return {
        "active": float(active.double().mean()),
        "conformity": float(conformity.sum() / count),
        "accepted": float(last.accepted[active].sum() / count),
        "conformity_histogram": histogram.int().tolist(),
    }


def check_loss(record: Record) -> None:
    """Ends a run whose loss is no number any more."""
    if not math.isfinite(record["loss"]):
        raise InputError(
            f"the loss became {record['loss']} at step {record['step']}: take a "
            f"smaller optimizer.rate (now {record['rate']:g}) or set optimizer.clip"
        )


class JsonLines:
    """One JSON object a line, flushed as it comes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: Record) -> None:
        """Appends a line."""
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class TensorBoard:
    """Scalars and the conformity histogram for TensorBoard (extra ``tensorboard``)."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "TensorBoard is not installed: pip install 'gradsnap[tensorboard]'"
            ) from error
        self._writer = SummaryWriter(str(folder))

    def write(self, record: Record) -> None:
        """Adds every number of the record."""
        for name, value in record.items():
            if isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(name, value, record["step"])
        counts = record.get("conformity_histogram")
        if counts:
            edges = torch.linspace(-1, 1, HISTOGRAM_BINS + 1)
            middles = (edges[1:] + edges[:-1]) / 2
            values = middles.repeat_interleave(torch.tensor(counts))
            self._writer.add_histogram("conformity", values, record["step"])

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


class Bar:
    """A progress bar on a terminal's stderr; silent elsewhere and inside another."""

    SHOWN: typing.ClassVar = {
        "loss": "loss {:.3f}",
        "relative_error": "error {:.3f}",
    }

    def __init__(self, steps: int, done: int, figures: Mapping[str, str]) -> None:
        self._shown = self.SHOWN | {
            name: f"{title} {{:.3f}}" for name, title in figures.items()
        }
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(),
        )
        silent = not sys.stderr.isatty() or is_drawn()
        console = Console(stderr=True)
        self._bar = Progress(*columns, console=console, disable=silent, transient=True)
        self._task = self._bar.add_task(
            "training", total=steps, completed=done, words=""
        )
        self._latest: dict[str, str] = {}
        self._bar.start()

    def advance(self, step: int) -> None:
        """Moves the bar."""
        self._bar.update(self._task, completed=step)

    def write(self, record: Record) -> None:
        """Shows the newest figures."""
        for name, form in self._shown.items():
            if name in record:
                self._latest[name] = form.format(record[name])
        words = " ".join(
            self._latest[name] for name in self._shown if name in self._latest
        )
        self._bar.update(self._task, completed=record["step"], words=words)

    def close(self) -> None:
        """Removes the bar."""
        self._bar.stop()


class Log:
    """Passes records on to all sinks, with the seconds since the run began."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._started = time.monotonic()

    def write(self, record: Record) -> None:
        """Adds the seconds and passes the record on."""
        seconds = round(time.monotonic() - self._started, 3)
        for sink in self._sinks:
            sink.write(record | {"seconds": seconds})

    def close(self) -> None:
        """Closes all sinks."""
        for sink in self._sinks:
            sink.close()

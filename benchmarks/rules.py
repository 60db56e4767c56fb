"""Digits: every layer that makes embeddings quantizable, each at its own best rate.

The same network, batches and seeds for all. The learning rate of each layer is the one
whose codes rank best on a validation part of the training images, never on the queries.
After training a product quantizer is fitted anew to the database.

Conformity and acceptance are measured alike for all, also for those that do not snap:
what the snapping rule would say to the loss gradient in the last steps of training. A
row whose triplets are all settled has no gradient and counts as not accepted. A rate at
the edge of the grid is marked: a better one may lie beyond.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor, nn

import gradsnap as gs
from benchmarks.report import Record, say
from benchmarks.vectors import Setting
from examples import digits
from gradsnap.layers import LAYERS, build_layer
from gradsnap.layers.snapping import Snapped

RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
STRENGTHS = (0.036, 0.1, 0.3, 1.0)
SEEDS = 3
PROBED_STEPS = 50
NEIGHBORS = 150

Build = Callable[[gs.Quantizer], nn.Module]


class Outcome(NamedTuple):
    """One trained network; all NaN where training diverged."""

    float_map: float
    code_map: float
    error: float
    conformity: float
    accepted: float


DIVERGED = Outcome(*[math.nan] * 5)


@dataclass(frozen=True)
class RuleRow:
    """Means over the seeds of one layer at its own best learning rate.

    Args:
        layer: its name, and its strength where that is not the default.
        rate: the learning rate that was chosen.
        float_map: MAP of ranking by the embeddings' distances.
        code_map: MAP of ranking by codes.
        code_map_spread: largest less smallest over the seeds.
        error: quantization error over the embeddings' variance.
        conformity: cosine between the gradient and the direction to the codeword.
        accepted: share of rows the snapping rule accepts.
    """

    layer: str
    rate: float
    float_map: float
    code_map: float
    code_map_spread: float
    error: float
    conformity: float
    accepted: float

    def cells(self) -> dict[str, str]:
        """What is shown, by column."""
        if math.isnan(self.code_map):
            return dict.fromkeys(asdict(self), "diverged") | {"layer": self.layer}
        figures = {
            name.replace("_", " "): f"{value:.3f}"
            for name, value in asdict(self).items()
            if name != "layer"
        }
        edge = " (edge)" if self.rate in (RATES[0], RATES[-1]) else ""
        return {"layer": self.layer} | figures | {"rate": f"{self.rate:g}{edge}"}

    def record(self) -> Record:
        """What is written to the JSON file; NaN, which JSON lacks, becomes null."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }


def snapping(strength: float) -> Build:
    """The layer with another λ."""
    rule = gs.SnappingRule(strength)
    return lambda quantizer: gs.GradientSnapping(quantizer, NEIGHBORS, rule)


def regularization(strength: float) -> Build:
    """Output regularization with another λ."""
    rule = gs.OutputRegularization(strength)
    return lambda quantizer: gs.GradientSnapping(quantizer, 1, rule)


def every_layer() -> dict[str, Build]:
    """The layers of the library with their defaults."""
    return {name: functools.partial(build_layer, name) for name in LAYERS}


def other_strengths() -> dict[str, Build]:
    """Two of the layers with strengths other than their defaults."""
    defaults = gs.SnappingRule().strength, gs.OutputRegularization().strength
    named = {f"snapping, λ = {s:g}": snapping(s) for s in STRENGTHS if s != defaults[0]}
    return named | {
        f"output-regularization, λ = {s:g}": regularization(s)
        for s in STRENGTHS
        if s != defaults[1]
    }


def run(setting: Setting) -> Iterator[RuleRow]:
    """Every layer over the same seeds."""
    for name, build in (every_layer() | other_strengths()).items():
        say(f"rules: {name} …")
        trainer = Trainer(build, 60 if setting.quick else digits.STEPS)
        rate = best_rate(trainer, RATES[: setting.repeats(len(RATES))])
        seeds = range(setting.repeats(SEEDS))
        yield _mean(name, rate, [trainer.on_split(rate, seed) for seed in seeds])


def best_rate(trainer: "Trainer", rates: Sequence[float]) -> float:
    """The learning rate whose codes rank best on a fifth of the training images."""
    data = digits.splits(0)[0]
    cut = len(data.labels) // 5
    held = digits.Split(data.images[:cut], data.labels[:cut])
    rest = digits.Split(data.images[cut:], data.labels[cut:])
    found = {rate: trainer.outcome(rest, held, rest, rate, 0) for rate in rates}
    ranked = {rate: outcome.code_map for rate, outcome in found.items()}
    trained = {rate: value for rate, value in ranked.items() if not math.isnan(value)}
    return max(trained or ranked, key=lambda rate: ranked[rate])


@dataclass(frozen=True)
class Trainer:
    """Trains the example's network with one layer, and scores it.

    Args:
        build: makes the layer from the quantizer.
        steps: of training; the layer comes in after a sixth of them.
    """

    build: Build
    steps: int

    def on_split(self, rate: float, seed: int) -> Outcome:
        """Trained on the seed's training images, scored on its queries."""
        data, queries, database = digits.splits(seed)
        return self.outcome(data, queries, database, rate, seed)

    def outcome(
        self,
        data: digits.Split,
        queries: digits.Split,
        database: digits.Split,
        rate: float,
        seed: int,
    ) -> Outcome:
        """Trained and scored; ``DIVERGED`` where the embeddings became NaN."""
        try:
            network, probes = self.train(data, rate, seed)
            scores = digits.score(network, queries, database)
        except gs.InputError:  # how a quantizer answers to NaN
            return DIVERGED
        conformity = fmean(float(probe.conformity.mean()) for probe in probes)
        accepted = fmean(float(probe.accepted.double().mean()) for probe in probes)
        return Outcome(*scores, conformity, accepted)

    def train(
        self, data: digits.Split, rate: float, seed: int
    ) -> tuple[nn.Module, list[Snapped]]:
        """The example's loop with any layer; the last steps are probed."""
        network, quantizer = digits.small_network(seed), digits.new_quantizer()
        layer, probe = self.build(quantizer), gs.GradientSnapping(quantizer, NEIGHBORS)
        criterion = gs.TripletLoss(margin=1.0)
        optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
        generator = torch.Generator().manual_seed(seed)
        probes: list[Snapped] = []
        for step in range(self.steps):
            size = len(data.labels), (digits.BATCH,)
            batch = torch.randint(*size, generator=generator)
            embeddings = network(data.images[batch])
            if step == self.steps // 6:
                quantizer.fit(network(data.images).detach())
            passed = layer(embeddings) if quantizer.fitted else embeddings
            passed.retain_grad()
            optimizer.zero_grad()
            criterion(passed, data.labels[batch]).backward()
            optimizer.step()
            if quantizer.fitted:
                quantizer.update(embeddings.detach())
            if step >= self.steps - PROBED_STEPS:
                probes.append(_probed(probe, passed.grad, embeddings.detach()))
        return network, probes


def _probed(probe: gs.GradientSnapping, gradient: Tensor, y: Tensor) -> Snapped:
    """What the snapping rule would do to the gradient (n, dim) at embeddings y."""
    probe.snap(gradient, y)
    if probe.last is None:
        raise RuntimeError("the layer kept no record of its last backward")
    return probe.last


def _mean(name: str, rate: float, outcomes: list[Outcome]) -> RuleRow:
    means = Outcome(*map(fmean, zip(*outcomes, strict=True)))
    maps = [outcome.code_map for outcome in outcomes]
    return RuleRow(
        name,
        rate,
        means.float_map,
        means.code_map,
        max(maps) - min(maps),
        means.error,
        means.conformity,
        means.accepted,
    )

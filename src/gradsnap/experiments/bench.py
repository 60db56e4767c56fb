"""Where contenders meet: the same data, splits, trunk, steps and seeds for all."""

import dataclasses
import functools
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsnap.coders import CODERS, HASHERS
from gradsnap.data import Split
from gradsnap.evaluation import ProtocolCard
from gradsnap.experiments.cache import Record, RunCache, name_of, placeless
from gradsnap.experiments.contenders import Choice, Contender
from gradsnap.experiments.layouts import layout_of
from gradsnap.experiments.runs import Measures, Outcome, outcome
from gradsnap.experiments.sources import Source
from gradsnap.experiments.trunks import TRUNKS, Tables, Trunk, Vectors, default_trunk
from gradsnap.experiments.vector_files import items_fingerprint, vector_file
from gradsnap.methods import METHODS
from gradsnap.registry import chosen
from gradsnap.training import TrainingConfig, make_config
from gradsnap.training.defaults import divided, with_coder
from gradsnap.training.settings import changed

Told = Generator[str, None, list[Outcome]]
"""Yields a sentence after each finished run, and returns the outcomes."""

QUICK = ("run.steps=60", "run.validate_every=60", "run.checkpoint_every=60")
"""Of every run, to see that everything works; the figures mean little."""

OWN_LAYOUT = {*HASHERS, "lopq"}
"""Coders without codebooks, and LOPQ, whose cells take some of the bits."""


@dataclass(frozen=True)
class Bench:
    """What all contenders of an experiment share.

    Args:
        source: the data.
        folder: for finished runs and vectors.
        trunk_name: a key of ``TRUNKS``; None: by the data.
        seeds: how many; each draws its own split, weights and batches.
        words: settings of every run, as ``section.key=value``.
        weights: path of AlexNet's weights.
        quick: few steps, and coders with little effort.
    """

    source: Source
    folder: Path
    trunk_name: str | None = None
    seeds: int = 3
    words: tuple[str, ...] = ()
    weights: str | None = None
    quick: bool = False

    @functools.cached_property
    def cache(self) -> RunCache:
        """The finished runs."""
        return RunCache(self.folder / "runs")

    @functools.cached_property
    def named_trunk(self) -> tuple[str, Trunk]:
        """The trunk and its name."""
        name = self.trunk_name or default_trunk(self.source.dataset)
        return name, chosen(TRUNKS, name, "trunk")

    @property
    def trunk(self) -> Trunk:
        """The network below the embedding."""
        return self.named_trunk[1]

    def vectors(self, name: str, make: Vectors) -> Path:
        """A file of vectors of the items, made once."""
        dataset = self.source.dataset
        about = {
            "items": items_fingerprint(dataset),
            "weights": placeless(self.weights),
        }
        digest = name_of(about)
        path = self.folder / "vectors" / f"{self.source.slug}-{name}-{digest[:8]}.npz"
        return vector_file(path, dataset, lambda: make(dataset, self.weights))

    @functools.cached_property
    def fixed(self) -> Path:
        """The trunk's vectors of the items."""
        name, trunk = self.named_trunk
        return self.vectors(name, trunk.vectors)

    @functools.cached_property
    def base(self) -> TrainingConfig:
        """The configuration that all runs share, but for the place of the data."""
        return make_config(self._tables, self._words)

    @functools.cached_property
    def _tables(self) -> Tables:
        shared = self.trunk.tables(self.weights)
        return _joined(shared, {"data": self.source.division()})

    @property
    def _words(self) -> list[str]:
        return [*(QUICK if self.quick else ()), *self.words]

    def split(self, seed: int) -> Split:
        """The split of a seed."""
        own = {"data": self.source.division()}
        words = [one for one in self.words if one.startswith("data.")]
        data = make_config(own, [*words, f"data.split_seed={seed}"]).data
        return divided(self.source.dataset, data)

    @functools.cached_property
    def training_rows(self) -> int:
        """How many items train."""
        return len(self.split(0).train)

    def config(
        self, contender: Contender, choice: Choice, bits: int, seed: int
    ) -> TrainingConfig:
        """The configuration of one run."""
        source: Record = {"source": self.source.data, "root": self.source.root}
        if not self.trunk.trained:
            source = {"source": str(self.fixed), "root": None}
        own: Tables = {
            "data": source | {"split_seed": seed},
            "run": {"seed": seed},
            "coder": {"bits": bits},
        }
        words = [*self._words, *contender.overrides(choice)]
        method = make_config({}, contender.settings).method.name
        # The recipe's tables come first, so that options of both are kept.
        tables = _joined(METHODS[method].tables(method), self._tables)
        sized = self._sized(make_config(_joined(tables, own), words))
        if any(word.startswith("coder.kind=") for word in words):
            return sized
        return with_coder(sized, len(self.source.dataset.classes))

    def _sized(self, config: TrainingConfig) -> TrainingConfig:
        """With the length of the embedding and the codebooks that the bits ask for."""
        kind, bits = config.coder.kind, config.coder.bits
        sizes: Tables = {}
        needed = CODERS[kind].dim_of_bits(bits, **config.coder.options)
        if needed is None and config.network.dim is None:
            sizes["network"] = {"dim": self.trunk.dim}
        if config.coder.codebook_size is None:
            sizes["coder"] = {"codebook_size": self.codebook_size(kind, bits)}
        return changed(config, **sizes)

    def codebook_size(self, kind: str, bits: int) -> int | None:
        """Codewords in a codebook of a coder; None where the coder itself says it."""
        if kind in OWN_LAYOUT:
            return None
        given = self.base.coder.codebook_size
        return given or layout_of(bits, self.training_rows).codebook_size

    def outcome(
        self,
        contender: Contender,
        choice: Choice,
        bits: int,
        seed: int,
        measures: Measures | None = None,
    ) -> Outcome:
        """The figures of one run, from the cache where it was run before."""
        return outcome(self.config(contender, choice, bits, seed), self.cache, measures)

    def choose(
        self, contender: Contender, bits: int, measures: Measures | None = None
    ) -> Generator[str, None, Choice]:
        """The choice whose codes rank best on the validation part of seed 0.

        Yields a sentence after each run.
        """
        search = self.limited(contender).search()
        choice = next(search)
        while True:
            found = self.outcome(contender, choice, bits, 0, measures)
            yield (
                f"{contender.name}, {bits} bits, {choice}: validation "
                f"{found.validation_map:.3f} ({found.seconds:.0f} s)"
            )
            try:
                choice = search.send(found.validation_map)
            except StopIteration as done:
                best: Choice = done.value
                return best

    def limited(self, contender: Contender) -> Contender:
        """The contender, with one choice alone in quick runs."""
        if not self.quick:
            return contender
        middle = contender.rates[(len(contender.rates) - 1) // 2 :][:1]
        few = contender.strengths[:1]
        return dataclasses.replace(contender, rates=middle, strengths=few)

    def over_seeds(
        self,
        contender: Contender,
        choice: Choice,
        bits: int,
        measures: Measures | None = None,
    ) -> Told:
        """The outcomes of all seeds, one after the other."""
        found = []
        for seed in range(self.seeds):
            one = self.outcome(contender, choice, bits, seed, measures)
            found.append(one)
            yield (
                f"{contender.name}, {bits} bits, {choice}, seed {seed}: MAP "
                f"{one.code_map:.3f} ({one.seconds:.0f} s)"
            )
        return found

    def card(self, measures: Measures | None = None, **options: Any) -> ProtocolCard:
        """How the figures were measured."""
        name, trunk = self.named_trunk
        config = self.base
        shared: Record = {
            "trunk": name,
            "steps": config.run.steps,
            "batch size": config.run.batch_size or "by the number of classes",
            "embedding": f"{trunk.dim}-d, or one dimension a bit",
            "optimizer": f"{config.optimizer.name}, {config.optimizer.schedule}",
            "rates to choose from": ", ".join(f"{one:g}" for one in trunk.rates),
            "validation": f"{config.data.validation:g} of the training part",
            "settings": " ".join(self.words) or "none",
        }
        return ProtocolCard.of(
            self.source.title,
            [self.split(seed) for seed in range(self.seeds)],
            (measures or Measures()).rules(config.data.protocol),
            seeds=range(self.seeds),
            network=trunk.summary,
            options=shared | options,
        )


def _joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> Tables:
    """Both tables, the second's values over the first's, also within tables.

    >>> _joined({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 3}}})
    {'a': {'b': {'c': 3, 'd': 2}}}
    """
    joined = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], Mapping) and isinstance(second[name], Mapping):
            joined[name] = _joined(first[name], second[name])
    return joined

"""Pictures of a batch to their embeddings, by an engine that is made once a model."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradsnap.inference.engines import Engine, engine_for
from gradsnap.inference.model import Model
from gradsnap.serve.opened import Version

MANY = 2**31
"""Items an engine is made for: a server embeds as long as it runs."""


class Picture(NamedTuple):
    """A decoded picture, and the version whose model reads it."""

    pixels: Tensor
    """uint8 (1, channels, height, width)."""
    version: Version
    model: Model


class Embedded(NamedTuple):
    """The embedding of a picture."""

    vector: Tensor
    """(dim,)."""
    version: Version
    milliseconds: float


class Embedder:
    """Embeds batches; keeps the engine of the last model.

    Args:
        choice: of the engine, as of ``gradsnap.embed``.
    """

    def __init__(self, choice: str = "auto") -> None:
        self.choice = choice
        self._model: Model | None = None
        self._shape: torch.Size | None = None
        self._engine: Engine | None = None

    def answers(self, pictures: Sequence[Picture]) -> list[Embedded | Exception]:
        """The embedding of each picture; those of one shape go together."""
        found: list[Embedded | Exception] = [ValueError("not embedded")] * len(pictures)
        groups: dict[tuple[int, torch.Size], list[int]] = {}
        for place, one in enumerate(pictures):
            key = id(one.model), one.pixels.shape
            groups.setdefault(key, []).append(place)
        for places in groups.values():
            alike = [pictures[place] for place in places]
            for place, made in zip(places, self._group(alike), strict=True):
                found[place] = made
        return found

    @torch.no_grad()
    def _group(self, pictures: list[Picture]) -> list[Embedded]:
        started = time.perf_counter()
        model = pictures[0].model
        batch = torch.cat([one.pixels for one in pictures])  # (b, c, h, w)
        rows = self._engine_of(model, batch.shape[1:])(batch).cpu()  # (b, dim)
        took = 1000 * (time.perf_counter() - started)
        pairs = zip(rows, pictures, strict=True)
        return [Embedded(row, one.version, took) for row, one in pairs]

    def _engine_of(self, model: Model, shape: torch.Size) -> Engine:
        if self._engine is None or model is not self._model or shape != self._shape:
            network = model.network.eval()
            self._engine = engine_for(network, MANY, tuple(shape), self.choice)
            self._model, self._shape = model, shape
        return self._engine

"""How much the demo trains: its sides, what is tried for each, its lengths of code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from gradsnap.errors import InputError
from gradsnap.training import TrainingConfig, make_config

SIDES = {
    "plain": "without snapping",
    "snapping": "with snapping",
    "codes": "through codes",
}
"""The layer of each side, and what people call it."""

DATA = {
    "source": "digits",
    "protocol": "paper",
    "protocol_options": {
        "queries_per_class": 20,
        "training_per_class": 50,
        "training_in_database": False,
    },
    "validation": 0.3,
}
NETWORK = {
    "name": "mlp",
    "dim": 32,
    "options": {"side": 8, "channels": 1, "hidden": [128]},
}


class Trial(NamedTuple):
    """What is chosen for a side on the validation part."""

    rate: float
    """The learning rate."""
    strength: float | None = None
    """λ of the layer; None where it has none."""
    mixture: float = 0.0
    """μ, the weight of the loss of floats beside the loss through codes."""

    def __str__(self) -> str:
        strength = "" if self.strength is None else f", λ = {self.strength:g}"
        mixture = f", μ = {self.mixture:g}" if self.mixture else ""
        return f"rate {self.rate:g}{strength}{mixture}"


TRIALS: Mapping[str, tuple[Trial, ...]] = {
    "plain": (Trial(0.005), Trial(0.01), Trial(0.02)),
    "snapping": (Trial(0.01, 1.0), Trial(0.02, 0.3)),
    "codes": (Trial(0.01, 0.1, 0.3), Trial(0.01, 0.3, 1.0)),
}
"""No side has more than the plain one, so that a gain is not one of searching more."""


@dataclass(frozen=True)
class DemoSettings:
    """How much is trained, and for which lengths of code.

    Args:
        seeds: how often each network is trained, from other weights and batches.
        steps: batches of each training.
        trials: what is tried for each side, at the first length.
        lengths: bits of a code; each is trained for on its own. The first is what the
            page is about.
        top: results shown for a query.
    """

    seeds: int = 3
    steps: int = 200
    trials: Mapping[str, tuple[Trial, ...]] = field(default_factory=lambda: TRIALS)
    lengths: tuple[int, ...] = (4, 8, 16)
    top: int = 8

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")

    @classmethod
    def quick(cls) -> Self:
        """One seed, one trial a side and few steps: whether it runs, not how well."""
        first = {layer: trials[:1] for layer, trials in TRIALS.items()}
        return cls(seeds=1, steps=60, trials=first, lengths=(4, 8))

    @property
    def bits(self) -> int:
        """The length that the page is about."""
        return self.lengths[0]

    @property
    def runs(self) -> str:
        """How many trainings a figure is the mean of, in words."""
        return f"{self.seeds} seeds" if self.seeds > 1 else "one seed"

    def first(self) -> TrainingConfig:
        """The first run; data and network are those of all."""
        layer, (trial, *_) = next(iter(self.trials.items()))
        return self.config(layer, trial, self.bits, seed=0)

    def config(self, layer: str, trial: Trial, bits: int, seed: int) -> TrainingConfig:
        """One training run; only layer and trial differ between the sides."""
        own = {} if trial.strength is None else {"strength": trial.strength}
        tables: dict[str, Any] = {
            "data": DATA,
            "network": NETWORK,
            "loss": {"name": "supcon", "mixture": trial.mixture},
            "coder": {
                "kind": "pq",
                "bits": bits,
                "codebook_size": codebook_size(bits),
                "refit": "best",
            },
            "layer": {"name": layer, "warmup": 0.25, "options": own},
            "optimizer": {"name": "adamw", "rate": trial.rate},
            "run": {
                "steps": self.steps,
                "batch_size": 96,
                "seed": seed,
                "monitor_every": max(1, self.steps // 40),
                "validate_every": max(1, self.steps // 8),
                "checkpoint_every": self.steps,
                "score_queries": False,
                "device": "cpu",
            },
        }
        return make_config(tables)


def codebook_size(bits: int) -> int:
    """Codewords a codebook; so few of them that there are at least two codebooks."""
    return 16 if bits >= 8 else 4


def length_in_words(bits: int) -> str:
    """The length of a code as people say it.

    >>> length_in_words(4), length_in_words(8), length_in_words(16)
    ('half a byte', 'one byte', '2 bytes')
    """
    return {4: "half a byte", 8: "one byte"}.get(bits, f"{bits / 8:g} bytes")

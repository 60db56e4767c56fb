"""What the demo does, in numbers; the tests make them small."""

from dataclasses import dataclass
from typing import Any

from gradsnap.errors import InputError
from gradsnap.training import TrainingConfig, make_config

CODEBOOK_SIZE = 16


@dataclass(frozen=True)
class DemoSettings:
    """How much is trained, and at which lengths of code it is compared.

    Args:
        seeds: how often each network is trained, from other weights and batches.
        steps: batches of each training.
        rates: learning rates to choose from, for each side on its own.
        bits: length of the codes that are trained for.
        lengths: bits at which both trained networks are quantized once more.
        top: results shown for a query.
    """

    seeds: int = 3
    steps: int = 400
    rates: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    bits: int = 16
    lengths: tuple[int, ...] = (8, 12, 16, 24, 32)
    top: int = 8

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")

    def config(self, layer: str, rate: float, seed: int) -> TrainingConfig:
        """One training run; only the layer differs between the two sides."""
        per_class = {"queries_per_class": 20, "training_per_class": 50}
        protocol = {**per_class, "training_in_database": False}
        tables: dict[str, Any] = {
            "data": {
                "source": "digits",
                "protocol": "paper",
                "protocol_options": protocol,
                "validation": 0.2,
            },
            "network": {
                "name": "gradsnap.demo.network:one_hidden_layer",
                "dim": 32,
                "options": {"side": 8, "channels": 1, "mean": [0.0], "std": [1.0]},
            },
            "quantizer": {"bits": self.bits, "codebook_size": CODEBOOK_SIZE},
            "snapping": {"layer": layer},
            "optimizer": {"name": "sgd", "rate": rate},
            "run": self._run(seed),
        }
        return make_config(tables)

    def _run(self, seed: int) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "batch_size": 96,
            "seed": seed,
            "monitor_every": max(1, self.steps // 40),
            "validate_every": max(1, self.steps // 8),
            "checkpoint_every": self.steps,
            "score_queries": False,
            "device": "cpu",
        }

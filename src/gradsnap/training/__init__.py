"""Training: one visible loop, and the parts it is made of."""

from gradsnap.training.beside import run_beside_plain
from gradsnap.training.config import TrainingConfig
from gradsnap.training.loop import train
from gradsnap.training.run import run_training
from gradsnap.training.settings import make_config, read_toml, to_toml

__all__ = [
    "TrainingConfig",
    "make_config",
    "read_toml",
    "run_beside_plain",
    "run_training",
    "to_toml",
    "train",
]

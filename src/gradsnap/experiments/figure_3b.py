"""Figure 3b: MAP against the interval of codebook updates."""

from gradsnap.experiments.plan import Experiment
from gradsnap.experiments.sweep import Sweep

SWEEP = Sweep(
    "coder.update_every",
    (1, 2, 5, 10, 20, 50, 100),
    "steps from one update of the codebooks to the next",
)

EXPERIMENT = Experiment(
    "figure-3b",
    "MAP against the interval of codebook updates, at 4, 8 and 32 bits",
    "sal:ofq",
    "cifar10",
    SWEEP.plan,
)

"""Figure 3c: MAP against the number of neighbouring codewords."""

from gradsnap.experiments.plan import Experiment
from gradsnap.experiments.sweep import Sweep

SWEEP = Sweep(
    "layer.options.neighbors",
    (150, 1, 2, 5, 15, 50, 500),
    "neighbouring codewords that are looked at",
    lambda bits: 2**bits,
)

EXPERIMENT = Experiment(
    "figure-3c",
    "MAP against the number of neighbouring codewords, at 4, 8 and 32 bits",
    "sal:nn",
    "cifar10",
    SWEEP.plan,
)
